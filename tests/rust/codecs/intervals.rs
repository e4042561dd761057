//! `ZXI1` frames: golden vectors, tensors of many kinds, rows, and damage.

#![allow(clippy::cast_possible_truncation)] // the numbers fit

use std::ops::Range;

use proptest::prelude::*;
use zstn_core::bytes::part;
use zstn_core::container::zstn::rows::{FrameTable, IntervalsTable};
use zstn_core::dtype::Dtype;
use zstn_core::frame::select::{self, Effort, EncodeOptions};
use zstn_core::frame::{Edition, Family, decompress, intervals};
use zstn_core::pure::Pure;
use zstn_core::{Rule, TensorRef};
use zstn_tests::rng::Rng;
use zstn_tests::{cases, native};

use crate::{refuses_other_lengths, vectors_decode};

const DTYPES: [Dtype; 5] = [
    Dtype::Bf16,
    Dtype::F16,
    Dtype::F32,
    Dtype::F8E4M3,
    Dtype::F8E5M2,
];

/// Returns normal values whose deviation depends on the row and the column. In every
/// hundred, `zeros` are zero.
fn weights(dtype: Dtype, [rows, columns]: [usize; 2], zeros: u64, seed: u64) -> Vec<u8> {
    let mut rng = Rng(seed);
    let scales: Vec<f64> = (0..columns).map(|_| 0.5 + rng.unit()).collect();
    let mut out = Vec::new();
    for row in 0..rows {
        let of_row = 0.02 * (1.0 + (row % 7) as f64);
        for scale in &scales {
            let is_zero = rng.next_u64() % 100 < zeros;
            let value = if is_zero {
                0.0
            } else {
                rng.normal(of_row * scale)
            };
            let bits = (value as f32).to_bits();
            match dtype {
                Dtype::F32 => out.extend(bits.to_le_bytes()),
                Dtype::Bf16 => out.extend(((bits >> 16) as u16).to_le_bytes()),
                // The exponent gets the width that the dtype has.
                Dtype::F16 => {
                    let magnitude = ((bits & 0x7fff_ffff) >> 13).saturating_sub(112 << 10);
                    out.extend(((bits >> 16 & 0x8000) as u16 | magnitude as u16).to_le_bytes());
                }
                _ => {
                    let magnitude = ((bits & 0x7fff_ffff) >> 20).saturating_sub(112 << 3);
                    out.push((bits >> 24 & 0x80) as u8 | magnitude as u8);
                }
            }
        }
    }
    out
}

/// Returns the frame of a tensor, if there is one, after decoding it with both engines.
fn coded(bytes: &[u8], dtype: Dtype, shape: &[u64]) -> Option<Vec<u8>> {
    let frame = intervals::encode(&native(), TensorRef::new(bytes, dtype, shape))?;
    let limit = bytes.len() as u64;
    assert!(decompress(&Pure, &frame, limit).expect("decodes") == bytes);
    assert!(decompress(&native(), &frame, limit).expect("decodes") == bytes);
    Some(frame)
}

#[test]
fn every_vector_decodes() {
    vectors_decode("zxi1", 26);
}

#[test]
fn weights_are_smaller_than_in_planes_and_only_where_the_user_asks_for_it() {
    for (dtype, zeros, at_most) in [
        (Dtype::Bf16, 0, 0.985),
        (Dtype::F16, 0, 0.99),
        (Dtype::F32, 0, 0.995),
        (Dtype::F8E4M3, 0, 0.99),
        (Dtype::Bf16, 50, 0.97),
        (Dtype::F32, 50, 0.99),
    ] {
        let bytes = weights(dtype, [512, 384], zeros, 5);
        let tensor = TensorRef::new(&bytes, dtype, &[512, 384]);
        let options = EncodeOptions::new(Effort::Max);
        let planes = select::encode(&native(), tensor, options);
        let extended = select::encode(&native(), tensor, options.extended(true));
        assert_eq!(Family::recognise(&extended), Some(Family::Intervals));
        let ratio = extended.len() as f64 / planes.len() as f64;
        assert!(ratio < at_most, "{dtype}, {zeros} % zeros: {ratio}");
        assert_ne!(Family::recognise(&planes), Some(Family::Intervals));
        let balanced = EncodeOptions::default().extended(true);
        let balanced = select::encode(&native(), tensor, balanced);
        assert_ne!(Family::recognise(&balanced), Some(Family::Intervals));
    }
}

#[test]
fn frames_depend_on_neither_threads_nor_the_engine() {
    let bytes = weights(Dtype::Bf16, [1200, 1024], 3, 6);
    let tensor = TensorRef::new(&bytes, Dtype::Bf16, &[1200, 1024]);
    let of = |threads| zstn::Engine::new(threads).expect("threads");
    let one = intervals::encode(&of(1), tensor).expect("a frame");
    assert!(intervals::encode(&of(3), tensor).expect("a frame") == one);
    assert!(intervals::encode(&Pure, tensor).expect("a frame") == one);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any bits come back, among them NaN, infinities and zeros of both signs.
    #[test]
    fn anything_comes_back(
        dtype in prop::sample::select(&DTYPES),
        rows in 1usize..70,
        columns in 30usize..400,
        zeros in 0u64..101,
        odd in prop::collection::vec((any::<usize>(), any::<[u8; 4]>()), 0..40),
        seed: u64,
    ) {
        let rows = rows + 8192 / columns;
        let mut bytes = weights(dtype, [rows, columns], zeros, seed);
        for (at, other) in odd {
            let at = at % (bytes.len() / 4) * 4;
            bytes[at..at + 4].copy_from_slice(&other);
        }
        // The encoder makes no frame if it does not decode to the same bytes.
        let shaped = coded(&bytes, dtype, &[rows as u64, columns as u64]);
        let flat = coded(&bytes, dtype, &[bytes.len() as u64]);
        prop_assert!(zeros > 99 || shaped.is_some() && flat.is_some());
    }
}

#[test]
fn zeros_and_other_dtypes_get_no_frame() {
    assert_eq!(coded(&[0; 1 << 16], Dtype::Bf16, &[1 << 15]), None);
    let ones = coded(&[7; 1 << 16], Dtype::F8E5M2, &[1 << 16]).expect("a frame");
    assert!(ones.len() < 200, "{}", ones.len());
    let bytes = weights(Dtype::Bf16, [64, 256], 0, 1);
    for dtype in [Dtype::I16, Dtype::U8, Dtype::F64] {
        assert_eq!(coded(&bytes, dtype, &[64, 256]), None, "{dtype}");
    }
    assert_eq!(coded(&bytes[..8000], Dtype::Bf16, &[4000]), None, "small");
    assert_eq!(coded(&bytes[..32767], Dtype::Bf16, &[64, 256]), None);
}

#[test]
fn a_few_very_long_rows_get_no_codes() {
    let bytes = weights(Dtype::Bf16, [2, 150_000], 0, 3);
    coded(&bytes, Dtype::Bf16, &[2, 150_000]).expect("a frame");
    coded(&bytes, Dtype::Bf16, &[300_000]).expect("a frame");
}

/// Returns a tensor of ten blocks, and its frame.
fn large() -> (Vec<u8>, Vec<u8>) {
    let bytes = weights(Dtype::Bf16, [1280, 1000], 0, 11);
    let frame = coded(&bytes, Dtype::Bf16, &[1280, 1000]).expect("a frame");
    (bytes, frame)
}

fn parts<'f>(frame: &'f [u8], ranges: &[Range<u64>]) -> Vec<&'f [u8]> {
    ranges
        .iter()
        .map(|range| part(frame, range.clone()))
        .collect()
}

#[test]
fn rows_are_decoded_from_the_head_and_their_blocks() {
    let (bytes, frame) = large();
    let (frame_len, len) = (frame.len() as u64, bytes.len() as u64);
    let table = FrameTable::of(&frame).expect("several blocks");
    assert!(matches!(table, FrameTable::Intervals(_)));
    let written = table.to_bytes();
    let reread = FrameTable::parse(&written, frame_len, len, Edition::Extended);
    assert_eq!(reread.expect("its own bytes"), table);
    table.check(&frame).expect("the same frame");
    let block = 1 << 18;
    for span in [
        0..len,
        0..0,
        len..len,
        5..9,
        block - 3..block + 3,
        3 * block..4 * block,
        len - 2049..len,
    ] {
        let plan = table.plan(span.clone());
        let mut pairs = plan.ranges().windows(2);
        assert!(pairs.all(|pair| pair[0].end < pair[1].start));
        let fetched = parts(&frame, plan.ranges());
        let read = plan.decode(&Pure, &fetched).expect("decodes");
        assert!(read == part(&bytes, span.clone()), "{span:?}");
        assert!(plan.decode(&native(), &fetched).expect("decodes") == read);
    }
    let few = table.plan(5 * block..5 * block + 4000);
    let fetched: u64 = few.ranges().iter().map(|r| r.end - r.start).sum();
    assert!(fetched < frame_len / 8, "{fetched} of {frame_len}");
}

#[test]
fn damaged_tables_and_parts_are_refused() {
    let (bytes, frame) = large();
    let (frame_len, len) = (frame.len() as u64, bytes.len() as u64);
    let table = IntervalsTable::of(&frame).expect("several blocks");
    let written = table.to_bytes();
    for cut in 0..written.len() {
        assert!(IntervalsTable::parse(&written[..cut], frame_len, len).is_err());
    }
    for at in 0..written.len() {
        let mut other = written.clone();
        other[at] ^= 1 << (at % 8);
        assert!(IntervalsTable::parse(&other, frame_len, len).is_err());
    }
    assert!(IntervalsTable::parse(&written, frame_len, len + (1 << 20)).is_err());
    assert!(IntervalsTable::parse(&written, frame_len - 1, len).is_err());
    // The table of another frame of the same lengths is not that of this one.
    let longer = IntervalsTable::parse(&written, frame_len, len + 2).expect("as many blocks");
    assert!(longer.check(&frame).is_err());
    let span = 3 << 18..(3 << 18) + 4096;
    let plan = table.plan(span.clone());
    for at in (0..frame.len()).step_by(997) {
        let mut other = frame.clone();
        other[at] ^= 0x40;
        let mut ranges = plan.ranges().iter();
        let is_read = ranges.any(|range| range.contains(&(at as u64)));
        let decoded = plan.decode(&Pure, &parts(&other, plan.ranges()));
        match decoded {
            Ok(decoded) => assert!(!is_read && decoded == part(&bytes, span.clone())),
            Err(error) => assert!(is_read, "{at}: {error}"),
        }
        assert!(table.check(&other).is_err(), "{at}");
    }
}

fn small_frames() -> Vec<Vec<u8>> {
    let names = ["example", "one-element-16", "bf16-edges", "f16-columns"];
    let read = |name| cases::read("zxi1", &format!("{name}.zxi1"));
    names.map(read).to_vec()
}

#[test]
fn every_cut_and_every_flipped_bit_are_refused() {
    let frames = small_frames();
    refuses_other_lengths(&frames);
    for frame in frames {
        let mut flipped = frame.clone();
        for bit in 0..frame.len() * 8 {
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decompress(&Pure, &flipped, 1 << 20).is_err(), "bit {bit}");
            flipped[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// Flips bits of heads and blocks and mends the checksums, so that the fields behind them
/// are looked at.
#[test]
fn flipped_bits_with_right_checksums_give_an_error_or_elements() {
    let native = native();
    for frame in small_frames() {
        for bit in 0..frame.len() * 8 {
            let mut flipped = frame.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            zstn_tests::frames::seal_intervals(&mut flipped);
            let results = [
                decompress(&Pure, &flipped, 1 << 20),
                decompress(&native, &flipped, 1 << 20),
            ];
            assert_eq!(results[0], results[1], "bit {bit}");
        }
    }
}

#[test]
fn a_short_frame_cannot_promise_a_long_tensor() {
    let mut frame = cases::read("zxi1", "example.zxi1");
    for elements in [7, 1 << 20, 1 << 40, u64::MAX >> 8, u64::MAX] {
        frame[8..16].copy_from_slice(&elements.to_le_bytes());
        zstn_tests::frames::seal_intervals(&mut frame);
        let error = decompress(&Pure, &frame, u64::MAX).expect_err("refused");
        assert!(error.rule().is_some(), "{error}");
    }
    frame[8..16].copy_from_slice(&6u64.to_le_bytes());
    frame[16..24].copy_from_slice(&7u64.to_le_bytes());
    zstn_tests::frames::seal_intervals(&mut frame);
    let error = decompress(&Pure, &frame, u64::MAX).expect_err("rows longer than the tensor");
    assert_eq!(error.rule(), Some(Rule::IntervalsHead));
    // Codes of rows may take no bytes, so there may only be one for every few elements.
    frame[8..16].copy_from_slice(&(1u64 << 40).to_le_bytes());
    frame[16..24].copy_from_slice(&1u64.to_le_bytes());
    let error = decompress(&Pure, &frame, u64::MAX).expect_err("too many rows");
    assert!(error.to_string().contains("rows and columns"), "{error}");
}
