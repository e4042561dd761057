//! Damaged files: refused, in bounded memory and time, or read right.

use std::time::{Duration, Instant};

use zstn_core::ErrorKind;
use zstn_core::bytes::part;
use zstn_core::engine::Pure;
use zstn_tests::cases;
use zstn_tests::memory::peak_bytes;

use crate::{native, open, read_all, vector};

/// What each file breaks.
const BROKEN_RULES: [(&str, &str); 25] = [
    ("short_magic.zt", "ztensor.magic"),
    ("wrong_magic.zt", "ztensor.magic"),
    ("magic_only.zt", "ztensor.footer"),
    ("size_past_start.zt", "ztensor.footer"),
    ("size_u64_max.zt", "ztensor.footer"),
    ("size_too_small.zt", "ztensor.cbor"),
    ("root_is_map.zt", "ztensor.field"),
    ("missing_dtype.zt", "ztensor.field"),
    ("missing_offset.zt", "ztensor.field"),
    ("unknown_dtype.zt", "ztensor.dtype"),
    ("unknown_encoding.zt", "ztensor.encoding"),
    ("unaligned_offset.zt", "ztensor.place"),
    ("offset_zero.zt", "ztensor.place"),
    ("blob_past_eof.zt", "ztensor.place"),
    ("raw_size_mismatch.zt", "ztensor.length"),
    ("crc_mismatch_raw.zt", "ztensor.checksum"),
    ("crc_bad_hex.zt", "ztensor.checksum_text"),
    ("zstd_bad_frame.zt", "zstd.frame"),
    ("zstd_wrong_length.zt", "zstd.content_size"),
    ("negative_dim.zt", "ztensor.field"),
    ("shape_overflow.zt", "ztensor.overflow"),
    ("trailing_cbor.zt", "ztensor.cbor"),
    ("v1_footer_magic.zt", "ztensor.footer"),
    ("v2_manifest_hash.zt", "ztensor.manifest_hash"),
    ("v2_truncated.zt", "ztensor.footer"),
];

#[test]
fn bad_files_are_refused_in_bounded_memory_and_time() {
    let native = native();
    let listed = cases::bad_ztensor();
    assert_eq!(listed.len(), BROKEN_RULES.len());
    for (name, rule) in BROKEN_RULES {
        assert!(listed.iter().any(|listed| listed == name), "{name}");
        let file = cases::read("ztensor-bad", name);
        for result in [
            measured(name, || read_all(&native, &file)),
            measured(name, || read_all(&Pure, &file)),
        ] {
            let error = result.expect_err(name);
            assert_eq!(error.kind(), ErrorKind::Malformed, "{name}: {error}");
            assert_eq!(
                error.rule().map(|r| r.code()),
                Some(rule),
                "{name}: {error}"
            );
        }
    }
}

/// What `work` gives, which must be quick and take little memory.
pub fn measured<T>(name: &str, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let (result, peak) = peak_bytes(work);
    assert!(peak < 64 << 20, "{name} held {peak} bytes");
    assert!(started.elapsed() < Duration::from_secs(1), "{name}");
    result
}

#[test]
fn every_truncation_is_refused() {
    for case in cases::ztensor() {
        let file = vector(&case.file);
        let step = 1 + file.len() / 3000;
        for len in (0..file.len()).step_by(step) {
            if len == 16 && file.starts_with(b"ZTEN0001\0\0\0\0\0\0\0\0") {
                // The magic and padding: an old way to say "no tensors".
                assert!(read_all(&Pure, &file[..len]).expect("empty").is_empty());
                continue;
            }
            let error = read_all(&Pure, &file[..len]).expect_err("cut");
            assert_eq!(error.kind(), ErrorKind::Malformed, "{} at {len}", case.file);
        }
    }
}

/// Flips one bit after the other, of padding only some.
fn for_every_flip(file: &[u8], mut check: impl FnMut(&[u8], usize)) {
    let mut flipped = file.to_vec();
    for byte in 0..file.len() {
        if file[byte] == 0 && !byte.is_multiple_of(997) {
            continue;
        }
        for bit in 0..8 {
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
            // Hashes cover all of version 2. In others a flip may go
            // unnoticed, but what is read is as long as the list says, which
            // `read_all` has looked at.
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
