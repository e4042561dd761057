//! Reading over HTTP, and the servers `zstn serve`, `zstn view`, `zstn gateway` and
//! `zstn worker`.

mod async_reader;
mod changing_validators;
mod faults;
mod gateway;
mod hub;
mod options;
mod packing;
mod put;
mod ranges;
mod reading;
mod secrets;
mod serve;
mod unpacking;
mod worker;
