//! Requests to the gateway: no path leads to another place than the one that was
//! checked, and heads of answers about ranges agree with themselves.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zstn_hub::gateway::check_request;

fuzz_target!(|request: &[u8]| check_request(request));
