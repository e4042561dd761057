//! Reading over HTTP, and `zstn serve`.

mod faults;
mod reading;
mod serve;
