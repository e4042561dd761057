//! Sends requests to the gateway: no path leads to a location other than the checked
//! one, and the headers of range responses are consistent.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zstn_hub::gateway::check_request;

fuzz_target!(|request: &[u8]| check_request(request));
