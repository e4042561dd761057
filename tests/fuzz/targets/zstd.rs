//! Decodes a zstd frame with C zstd and with the Rust decoder. The first four bytes of
//! the input are the expected length.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zstn_core::bytes::buffer;
use zstn_core::entropy::zstd;
use zstn_core::pure::Pure;
use zstn_fuzz::{LIMIT_BYTES, NATIVE, agree, speak};

fuzz_target!(|input: &[u8]| {
    let Some((len_bytes, frame)) = input.split_first_chunk::<4>() else {
        return;
    };
    let len_bytes = u64::from(u32::from_le_bytes(*len_bytes)).min(LIMIT_BYTES);
    if let Err(error) = zstd::check(frame, len_bytes) {
        return speak(&error);
    }
    let Ok(mut by_c) = buffer(len_bytes) else {
        return;
    };
    let mut by_rust = by_c.clone();
    let c = zstd::decode(&*NATIVE, frame, &mut by_c).map(|()| by_c);
    let rust = zstd::decode(&Pure, frame, &mut by_rust).map(|()| by_rust);
    agree(&c, &rust);
});
zstn_fuzz::keep_lengths!();
