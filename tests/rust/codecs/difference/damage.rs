//! Damaged frames and frames with forged fields.

use zstn_core::dtype::Dtype;
use zstn_core::frame::difference::{Difference, Directory};
use zstn_core::pure::Pure;
use zstn_core::{ErrorKind, Rule};
use zstn_tests::frames::{seal, seal_block};
use zstn_tests::rng::Rng;
use zstn_tests::tier::{self, stepped};

use super::vectors::{self, Vector};
use super::{decode, frame, native, refusal, trained};

/// Returns the small frames of all vectors and one made by the encoder.
fn small_frames() -> Vec<Vector> {
    let mut frames: Vec<Vector> = vectors::made()
        .into_iter()
        .filter(|v| v.frame.len() < 1500)
        .collect();
    let (base, tensor) = trained(&mut Rng(9), Dtype::Bf16, 80, 1e-2);
    frames.push(Vector {
        name: "encoder",
        frame: frame(&Pure, Dtype::Bf16, &[80], &base, &tensor),
        base,
        tensor,
    });
    assert!(frames.len() > 6, "{}", frames.len());
    frames
}

#[test]
fn every_truncation_is_refused() {
    for Vector { frame, base, .. } in small_frames() {
        for len in 0..frame.len() {
            let error = refusal(&frame[..len], &base);
            assert_eq!(error.kind(), ErrorKind::Malformed, "cut at {len}: {error}");
            assert_eq!(error.rule(), Some(Rule::Truncated), "cut at {len}: {error}");
        }
        let error = refusal(&[&frame[..], &[0]].concat(), &base);
        assert_eq!(error.rule(), Some(Rule::FrameTrailing), "{error}");
    }
}

#[test]
fn every_flip_is_noticed() {
    for Vector {
        name,
        mut frame,
        base,
        ..
    } in small_frames()
    {
        for bit in 0..frame.len() * 8 {
            frame[bit / 8] ^= 1 << (bit % 8);
            let error = refusal(&frame, &base);
            assert_eq!(
                error.kind(),
                ErrorKind::Malformed,
                "{name} bit {bit}: {error}"
            );
            frame[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// With recomputed checksums, a flipped bit is either rejected by the field that
/// contains it or decodes to a tensor of the same length.
#[test]
fn no_forged_bit_panics() {
    let native = native();
    for Vector {
        name,
        frame,
        base,
        tensor,
    } in small_frames()
    {
        let head_len = Difference::parse(&frame).expect("good").head_len_bytes();
        let mut refused = 0;
        for bit in stepped(0..frame.len() * 8, 5) {
            let mut forged = frame.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            match bit / 8 {
                44..48 => continue,
                at if (at as u64) < head_len => seal(&mut forged),
                _ => seal_block(&mut forged),
            }
            let results = [
                Difference::parse(&forged).and_then(|d| d.decode(&Pure, &base)),
                Difference::parse(&forged).and_then(|d| d.decode(&native, &base)),
            ];
            let [a, b] = results;
            match a {
                Ok(bytes) => {
                    assert_eq!(bytes.len(), tensor.len(), "{name} bit {bit}");
                    assert!(b.expect("the other engine agrees") == bytes);
                }
                Err(error) => {
                    refused += 1;
                    assert_eq!(b.expect_err("the other engine agrees"), error);
                }
            }
        }
        assert!(
            refused > frame.len() / tier::count(5, 1),
            "{name}: {refused} of {} bits",
            frame.len() * 8
        );
    }
}

/// Applies `change` to a small frame, recomputes the checksum of its head, and returns
/// the rule that the result breaks.
fn forged(change: impl Fn(&mut Vec<u8>)) -> Option<Rule> {
    let (base, tensor) = trained(&mut Rng(9), Dtype::Bf16, 80, 1e-2);
    let mut frame = frame(&Pure, Dtype::Bf16, &[80], &base, &tensor);
    assert_eq!(decode(&frame, &base).as_ref(), Ok(&tensor));
    change(&mut frame);
    seal(&mut frame);
    refusal(&frame, &base).rule()
}

fn put(frame: &mut [u8], at: usize, bytes: &[u8]) {
    frame[at..at + bytes.len()].copy_from_slice(bytes);
}

#[test]
fn fields_outside_their_ranges_are_refused() {
    let header = |at: usize, bytes: &[u8]| forged(|frame| put(frame, at, bytes));
    for (at, bytes) in [
        (5, &[3u8][..]),
        (6, &[4]),
        (6, &[1]),
        (7, &[2]),
        (7, &[6]),
        (24, &[0; 8]),
        (24, &[0xFF; 8]),
        (32, &[0; 8]),
        (32, &[81, 0, 0, 0, 0, 0, 0, 0]),
        (40, &[0; 4]),
        (40, &[0, 8, 0, 0]),
        (40, &[1, 0x10, 0, 0]),
        (40, &[0x20, 0, 0x10, 0]),
        (52, &[161, 161]),
        (52, &[9, 8]),
        (54, &[0]),
        (54, &[17]),
    ] {
        assert_eq!(
            header(at, bytes),
            Some(Rule::DifferenceHeader),
            "{at} {bytes:?}"
        );
    }
    assert_eq!(header(0, b"ZXE1"), Some(Rule::FrameMagic));
    assert_eq!(header(4, &[2]), Some(Rule::FrameVersion));
    assert_eq!(header(8, &[0; 16]), Some(Rule::DeltaReference));
    assert_eq!(
        header(24, &[79]),
        Some(Rule::DifferenceHeader),
        "a group of 80"
    );
    assert_eq!(header(55, &[2]), Some(Rule::InterleavedSide));
}

#[test]
fn a_few_bytes_promise_no_memory() {
    // The largest possible numbers of elements, in a single group and in one group
    // each.
    for elements in [1u64 << 40, (1 << 56) - 1] {
        let rule = forged(|frame| {
            put(frame, 24, &elements.to_le_bytes());
            put(frame, 32, &elements.to_le_bytes());
        });
        assert_eq!(rule, Some(Rule::Truncated), "a list of blocks");
        let rule = forged(|frame| {
            put(frame, 24, &elements.to_le_bytes());
            put(frame, 32, &1u64.to_le_bytes());
        });
        assert_eq!(rule, Some(Rule::Truncated), "codes");
    }
    // The head alone, for a tensor whose length differs from the stated one.
    let (base, tensor) = trained(&mut Rng(9), Dtype::F32, 80, 1e-2);
    let coded = frame(&Pure, Dtype::F32, &[80], &base, &tensor);
    for len_bytes in [0, 319, 321, u64::MAX] {
        let error = Directory::parse(&coded, len_bytes).expect_err("another length");
        assert_eq!(error.rule(), Some(Rule::DeltaReference));
    }
    // A different base of the same length.
    assert_eq!(refusal(&coded, &tensor).rule(), Some(Rule::DeltaReference));
    assert_eq!(
        refusal(&coded, &base[4..]).rule(),
        Some(Rule::DeltaReference)
    );
}
