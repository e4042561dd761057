//! `verify` and `unpack` accept the same files, both containers and deltas with their
//! base, and refuse others for the same reason.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zstn::{Input, Job, Sink, UnpackOptions, VerifyOptions};
use zstn_core::catalog::FileKind;
use zstn_fuzz::{LIMIT_BYTES, NATIVE, catalog, pair, with_and_without_checksums};

fuzz_target!(|input: &[u8]| {
    let Some((base, file)) = pair(input) else {
        return;
    };
    with_and_without_checksums(|_| {
        // Other formats can be verified, but do not restore a file.
        let is_packed = catalog(file).is_ok_and(|opened| {
            matches!(opened.kind(), FileKind::Zstn | FileKind::Delta)
                && opened.original_len_bytes() <= LIMIT_BYTES
        });
        if !is_packed {
            return;
        }
        let input = || Input::bytes("file", file.to_vec());
        let (mut unpacking, mut verifying) = (UnpackOptions::default(), VerifyOptions::default());
        if !base.is_empty() {
            unpacking = unpacking.base(Input::bytes("base", base.to_vec()));
            verifying = verifying.base(Input::bytes("base", base.to_vec()));
        }
        let mut restored = Vec::new();
        let sink = Sink::writer(&mut restored);
        let unpacked = zstn::unpack(&Job::new().engine(&NATIVE), input(), sink, &unpacking);
        let verified = zstn::verify(&Job::new().engine(&NATIVE), input(), &verifying);
        assert_eq!(
            unpacked.err().map(|error| error.to_string()),
            verified.err().map(|error| error.to_string()),
            "unpack and verify"
        );
    });
});
zstn_fuzz::keep_lengths!();
