//! Tensors on every grid are restored exactly, as a whole and row by row, and their
//! frames are small.

use std::ops::Range;

use proptest::prelude::*;
use zstn_core::Rule;
use zstn_core::container::zstn::rows::LatticeTable;
use zstn_core::dtype::Dtype;
use zstn_core::pure::Pure;
use zstn_tests::rng::Rng;

use super::{DTYPES, GRIDS, Grid, coded, made, native, parsed};

/// Rows and columns of a group in a 96×384 matrix.
const GROUPS: [[u32; 2]; 7] = [
    [96, 384],
    [1, 384],
    [1, 128],
    [1, 32],
    [1, 16],
    [96, 128],
    [96, 1],
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn grids_are_found(
        seed: u64,
        grid in prop::sample::select(&GRIDS),
        dtype in prop::sample::select(&DTYPES),
        group in prop::sample::select(&GROUPS),
    ) {
        let is_large = matches!(grid, Grid::F16);
        let dtype = if is_large { Dtype::F32 } else { dtype };
        // The encoder does not search two-byte grids for column groups.
        let group = if is_large && group[1] == 1 { [1, 384] } else { group };
        let bytes = made(grid, dtype, [96, 384, group[0], group[1]], seed);
        let frame = coded(&bytes, dtype, &[96, 384]).expect("a lattice");
        let geometry = parsed(&frame).head().geometry;
        // A geometry with larger groups than the generated ones would have too few
        // scales.
        prop_assert!(geometry.groups() >= u64::from(96 / group[0] * (384 / group[1])));
        prop_assert!(frame.len() < bytes.len());
    }

    #[test]
    fn other_elements_among_them_come_back(
        seed: u64,
        grid in prop::sample::select(&GRIDS),
        dtype in prop::sample::select(&DTYPES),
        spoiled in 0usize..40,
        columns in 100u32..300,
    ) {
        let dtype = if matches!(grid, Grid::F16) { Dtype::F32 } else { dtype };
        let mut rng = Rng(seed);
        let mut bytes = made(grid, dtype, [64, columns, 1, columns], seed);
        for _ in 0..spoiled {
            // NaN, infinities, zeros of both signs and arbitrary bits.
            let at = rng.next_u64() as usize % (bytes.len() / 4) * 4;
            let other = [0x7fc0_7e00, 0xff80_fc00, 0x8000_8000, 0, rng.next_u64() as u32];
            let other = other[rng.next_u64() as usize % other.len()];
            bytes[at..at + 4].copy_from_slice(&other.to_le_bytes());
        }
        let frame = coded(&bytes, dtype, &[64, columns.into()]);
        prop_assert!(spoiled > 0 || frame.is_some());
    }

    #[test]
    fn anything_comes_back(
        bytes in prop::collection::vec(any::<u8>(), 8192..9000),
        dtype in prop::sample::select(&DTYPES),
        zeros in 0usize..8192,
        rows in 1u64..9,
    ) {
        let mut bytes = bytes;
        bytes[..zeros].fill(0);
        let columns = bytes.len() as u64 / dtype.len_bytes().unwrap_or(1) as u64 / rows;
        bytes.truncate((rows * columns) as usize * dtype.len_bytes().unwrap_or(1));
        coded(&bytes, dtype, &[rows, columns]);
    }
}

/// bfloat16 has fewer significant bits below 2^-126 than above, so a number with eight
/// significant bits may not be representable there.
#[test]
fn subnormal_numbers_next_to_scaled_bfloat16_come_back() {
    let mut rng = Rng(5);
    for scale in [0.123_456_7f32, 0.001_234_57] {
        let mut bytes = Vec::new();
        for _ in 0..64 * 64 {
            #[allow(clippy::cast_possible_truncation)]
            let value = rng.normal(1.0) as f32;
            let rounded = f32::from_bits(value.to_bits() >> 16 << 16);
            bytes.extend_from_slice(&(rounded * scale).to_le_bytes());
        }
        coded(&bytes, Dtype::F32, &[64, 64]).expect("a lattice");
        for (number, bits) in [1u32, 3, 7, 100, 1 << 31 | 5].into_iter().enumerate() {
            let at = 4 * (700 * number + 13);
            bytes[at..at + 4].copy_from_slice(&bits.to_le_bytes());
            coded(&bytes, Dtype::F32, &[64, 64]);
        }
    }
}

/// Each group is as high as the matrix, which is decoded in several chunks.
#[test]
fn exceptions_reach_over_pieces() {
    let mut bytes = made(Grid::Integers(7), Dtype::Bf16, [4096, 96, 4096, 1], 3);
    for column in [0, 1, 40, 95] {
        let at = 2 * (96 * (1000 + 29 * column) + column);
        bytes[at..at + 2].copy_from_slice(&0x7fc1u16.to_le_bytes());
    }
    let frame = coded(&bytes, Dtype::Bf16, &[4096, 96]).expect("a lattice");
    assert!(parsed(&frame).head().has_exceptions);
}

/// Returns a 1024×1024 tensor with exceptions, and its frame in blocks.
fn large(grid: Grid, dtype: Dtype) -> (Vec<u8>, Vec<u8>) {
    let mut bytes = made(grid, dtype, [1024, 1024, 1, 128], 11);
    for at in [70_000, 1_000_000] {
        bytes[at..at + 4].copy_from_slice(&[0x01, 0x7e, 0xc1, 0x7f]);
    }
    let frame = coded(&bytes, dtype, &[1024, 1024]).expect("a lattice");
    (bytes, frame)
}

fn parts<'f>(frame: &'f [u8], ranges: &[Range<u64>]) -> Vec<&'f [u8]> {
    let part = |range: &Range<u64>| &frame[range.start as usize..range.end as usize];
    ranges.iter().map(part).collect()
}

#[test]
fn spans_are_decoded_from_the_planned_ranges() {
    for (grid, dtype) in [
        (Grid::Integers(7), Dtype::Bf16),
        (Grid::Offset(15), Dtype::F16),
        (Grid::F16, Dtype::F32),
    ] {
        let (bytes, frame) = large(grid, dtype);
        let table = LatticeTable::of(&frame).unwrap_or_else(|| panic!("no blocks: {dtype}"));
        let len = bytes.len() as u64;
        let reread = LatticeTable::parse(&table.to_bytes(), frame.len() as u64, len);
        assert_eq!(reread.expect("its own bytes"), table);
        table.check(&frame).expect("the same frame");
        for span in [
            0..len,
            0..0,
            5..9,
            69_990..70_017,
            len - 2049..len,
            2048..4096 * 30,
        ] {
            let plan = table.plan(span.clone());
            let apart = plan
                .ranges()
                .windows(2)
                .all(|pair| pair[0].end < pair[1].start);
            assert!(apart, "{:?}", plan.ranges());
            let fetched = parts(&frame, plan.ranges());
            let truth = &bytes[span.start as usize..span.end as usize];
            assert!(
                plan.decode(&Pure, &fetched).expect("decodes") == truth,
                "{span:?}"
            );
            assert!(
                plan.decode(&native(), &fetched).expect("decodes") == truth,
                "{span:?}"
            );
        }
        let fetched: u64 = table
            .plan(4096..8192)
            .ranges()
            .iter()
            .map(|r| r.end - r.start)
            .sum();
        assert!(
            fetched < frame.len() as u64 * 4 / 5,
            "{fetched} of {}",
            frame.len()
        );
    }
}

#[test]
fn damage_is_noticed() {
    let (bytes, frame) = large(Grid::Integers(7), Dtype::Bf16);
    let table = LatticeTable::of(&frame).expect("blocks");
    let (frame_len, len) = (frame.len() as u64, bytes.len() as u64);
    let written = table.to_bytes();
    for cut in 0..written.len() {
        assert!(
            LatticeTable::parse(&written[..cut], frame_len, len).is_err(),
            "{cut}"
        );
    }
    for at in 0..written.len() {
        let mut other = written.clone();
        other[at] ^= 1 << (at % 8);
        assert!(LatticeTable::parse(&other, frame_len, len).is_err(), "{at}");
    }
    assert!(LatticeTable::parse(&written, frame_len, len + 2).is_err());
    assert!(LatticeTable::parse(&written, frame_len - 1, len).is_err());
    let plan = table.plan(0..4096);
    for at in (0..frame.len()).step_by(997).chain([frame.len() - 1]) {
        let mut other = frame.clone();
        other[at] ^= 0x40;
        let planned = plan
            .ranges()
            .iter()
            .any(|range| range.contains(&(at as u64)));
        let decoded = plan.decode(&Pure, &parts(&other, plan.ranges()));
        match decoded {
            Ok(decoded) => assert!(!planned && decoded == bytes[..4096], "{at}"),
            Err(error) => {
                assert!(planned, "{at}: {error}");
                assert_eq!(error.rule(), Some(Rule::ZstnBlockChecksum), "{at}: {error}");
            }
        }
    }
    let mut other = frame.clone();
    *other.last_mut().expect("bytes") ^= 1;
    let error = table.check(&other).expect_err("damaged");
    assert_eq!(error.rule(), Some(Rule::ZstnBlockChecksum));
    other = frame.clone();
    other[9] ^= 1;
    assert!(table.check(&other).is_err());
}
