//! Decodes every tensor of a Keras model with both engines, and compares rows with the
//! whole tensor.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zstn_core::catalog::FileKind;
use zstn_fuzz::read_kind;

fuzz_target!(|file: &[u8]| read_kind(file, FileKind::Keras));
zstn_fuzz::keep_lengths!();
