//! Tensors on every grid are restored exactly, and their frames are small.

use proptest::prelude::*;
use zstn_core::dtype::Dtype;
use zstn_tests::rng::Rng;

use super::{DTYPES, GRIDS, Grid, coded, made, parsed};

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
