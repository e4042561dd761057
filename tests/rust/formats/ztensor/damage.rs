//! Damaged files are refused or read correctly.

use zstn_core::ErrorKind;
use zstn_core::bytes::part;
use zstn_core::pure::Pure;
use zstn_tests::cases::{self};
use zstn_tests::tier::is_all;
use zstn_tests::ztensor::{native, open, read_all, vector};

#[test]
fn every_truncation_is_refused() {
    for case in cases::ztensor() {
        let file = vector(&case.file);
        let step = 1 + file.len() / 3000;
        for len in (0..file.len()).step_by(step) {
            if len == 16 && file.starts_with(b"ZTEN0001\0\0\0\0\0\0\0\0") {
                // The magic and padding alone are a legacy encoding of a file without
                // tensors.
                assert!(read_all(&Pure, &file[..len]).expect("empty").is_empty());
                continue;
            }
            let error = read_all(&Pure, &file[..len]).expect_err("cut");
            assert_eq!(error.kind(), ErrorKind::Malformed, "{} at {len}", case.file);
        }
    }
}

/// Flips single bits: all of them in the full tier, every eleventh one in the small
/// tier, and only some in the padding.
fn for_every_flip(file: &[u8], mut check: impl FnMut(&[u8], usize)) {
    let mut flipped = file.to_vec();
    for byte in 0..file.len() {
        if file[byte] == 0 && !byte.is_multiple_of(997) {
            continue;
        }
        for bit in 0..8 {
            if !is_all() && !(byte * 8 + bit).is_multiple_of(11) {
                continue;
            }
            flipped[byte] ^= 1 << bit;
            check(&flipped, byte);
            flipped[byte] ^= 1 << bit;
        }
    }
}

#[test]
fn no_bit_flip_is_taken_for_something_it_is_not() {
    let engine = native();
    for case in cases::ztensor() {
        if case
            .tensors
            .iter()
            .any(|tensor| tensor.shape.iter().product::<u64>() > 10_000)
        {
            continue;
        }
        let file = vector(&case.file);
        let truth = read_all(&Pure, &file).expect("a vector");
        let is_hashed = case.format_version == "2";
        for_every_flip(&file, |flipped, byte| {
            let read = match byte % 2 {
                0 => read_all(&Pure, flipped),
                _ => read_all(&engine, flipped),
            };
            // Hashes cover all of version 2. In other versions, a flip may go
            // undetected, but the tensors have their listed lengths, which `read_all`
            // has checked.
            if is_hashed && let Ok(read) = read {
                assert!(read == truth, "{} at {byte}", case.file);
            }
        });
    }
}

#[test]
fn checksums_catch_every_flip_in_their_tensor() {
    let file = vector("v01_rs010_raw_crc.zt");
    let (catalog, _) = open(&file).expect("a vector");
    let number = catalog.find("a").expect("has a checksum");
    let stored = part(&file, catalog.tensors()[number].stored.clone());
    for_every_flip(stored, |flipped, byte| {
        let error = catalog.decode(&Pure, number, flipped).expect_err("flipped");
        let rule = error.rule().map(|rule| rule.code());
        assert_eq!(rule, Some("ztensor.checksum"), "byte {byte}");
    });
}
