//! A Gauss file: every tensor by both engines, and rows against the whole.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zstn_core::catalog::Kind;
use zstn_fuzz::reading::read_kind;

fuzz_target!(|file: &[u8]| read_kind(file, Kind::Gauss));
zstn_fuzz::keep_lengths!();
