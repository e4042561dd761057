//! Decodes one frame of any family with both engines.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zstn_core::frame::{Frame, decompress};
use zstn_core::pure::Pure;
use zstn_fuzz::{LIMIT_BYTES, NATIVE, agree, with_and_without_checksums};

fuzz_target!(|frame: &[u8]| {
    with_and_without_checksums(|_| {
        if let Ok(parsed) = Frame::parse(frame) {
            assert!(parsed.stored_len() <= frame.len());
        }
        let by_c = decompress(&*NATIVE, frame, LIMIT_BYTES);
        agree(&by_c, &decompress(&Pure, frame, LIMIT_BYTES));
    });
});
zstn_fuzz::keep_lengths!();
