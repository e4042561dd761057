//! Reading over HTTP, and `zstn serve`.

mod faults;
mod hub;
mod opening;
mod options;
mod ranges;
mod reading;
mod secrets;
mod serve;
