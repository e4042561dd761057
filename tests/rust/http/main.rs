//! Reading over HTTP, and `zstn serve`.

mod faults;
mod opening;
mod options;
mod ranges;
mod reading;
mod secrets;
mod serve;
