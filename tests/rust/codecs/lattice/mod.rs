//! `ZXQ1` frames: golden vectors, detection by the encoder, rows, and damage.

#![allow(clippy::cast_possible_truncation)] // of numbers in range

mod damage;
mod detection;
mod round_trips;
mod rows;
mod vectors;

use zstn_core::TensorRef;
use zstn_core::dtype::Dtype;
use zstn_core::frame::select::{Effort, EncodeOptions};
use zstn_core::frame::{Frame, decompress, lattice};
use zstn_core::pure::Pure;
use zstn_tests::lattice::{LatticeFields, stored};
use zstn_tests::rng::Rng;

const DTYPES: [Dtype; 3] = [Dtype::Bf16, Dtype::F16, Dtype::F32];

fn native() -> zstn::Engine {
    zstn::Engine::new(2).expect("two threads")
}

/// The grid of a generated tensor and the distribution of its symbols.
#[derive(Debug, Clone, Copy)]
enum Grid {
    /// Integers up to this magnitude.
    Integers(u8),
    /// Integers from 0 to this value, minus a zero point per group.
    Offset(u8),
    Nf4,
    E4m3,
    F16,
}

const GRIDS: [Grid; 7] = [
    Grid::Integers(1),
    Grid::Integers(7),
    Grid::Integers(127),
    Grid::Offset(15),
    Grid::Nf4,
    Grid::E4m3,
    Grid::F16,
];

const NF4: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

/// Returns the elements of a matrix on a grid with one random scale per group.
/// `geometry` holds the rows, columns, rows per group and columns per group.
fn made(grid: Grid, dtype: Dtype, geometry: [u32; 4], seed: u64) -> Vec<u8> {
    let mut rng = Rng(seed);
    let [rows, columns, group_rows, group_columns] = geometry;
    let groups = rows.div_ceil(group_rows) as usize * columns.div_ceil(group_columns) as usize;
    let count = rows as usize * columns as usize;
    let mut low = Rng(seed ^ 1);
    let mut symbol = |center: f64, deviation: f64, most: f64| -> u8 {
        (center + rng.normal(deviation)).round().clamp(0.0, most) as u8
    };
    let (id, size, flags) = match grid {
        Grid::Integers(largest) => (0, largest, 0),
        Grid::Offset(last) => (0, last, 1),
        Grid::Nf4 => (1, 15, 0),
        Grid::E4m3 => (2, 0, 0),
        Grid::F16 => (3, 0, 0),
    };
    let symbols: Vec<u8> = match grid {
        Grid::Integers(k) => {
            let k = f64::from(k);
            (0..count).map(|_| symbol(k, k / 2.5, 2.0 * k)).collect()
        }
        Grid::Offset(last) => (0..count).map(|_| symbol(8.0, 2.8, last.into())).collect(),
        Grid::Nf4 => (0..count).map(|_| symbol(7.5, 5.0, 15.0)).collect(),
        Grid::E4m3 => (0..count)
            .map(|_| symbol(100.0, 12.0, 126.0) | symbol(0.5, 0.7, 1.0) << 7)
            .collect(),
        // Half-precision numbers around 1 with either sign.
        Grid::F16 => (0..count)
            .flat_map(|_| {
                let [low, ..] = low.next_u64().to_le_bytes();
                [
                    low,
                    (0x34 + symbol(6.0, 3.0, 11.0)) | (symbol(0.5, 0.7, 1.0) << 7),
                ]
            })
            .collect(),
    };
    let scales: Vec<u8> = (0..groups)
        .flat_map(|_| ((0.01 * (1.0 + rng.unit())) as f32).to_le_bytes())
        .collect();
    let offsets: Vec<u8> = (0..groups)
        .map(|_| 120 + (rng.next_u64() % 5) as u8)
        .collect();
    let mut fields = LatticeFields {
        dtype_grid_flags: [
            DTYPES.iter().position(|d| *d == dtype).unwrap() as u8,
            id,
            flags,
        ],
        geometry,
        size_scales: [size, 2],
        frames: vec![stored(&symbols), stored(&scales)],
        table: Vec::new(),
    };
    match grid {
        Grid::Nf4 => fields.table = NF4.to_vec(),
        Grid::Offset(_) => fields.frames.push(stored(&offsets)),
        _ => {}
    }
    decompress(&Pure, &fields.frame(), 1 << 30).expect("a frame of made fields")
}

/// Returns the lattice frame of a tensor, if the encoder chose one, after decoding it
/// with both engines.
fn coded(bytes: &[u8], dtype: Dtype, shape: &[u64]) -> Option<Vec<u8>> {
    let tensor = TensorRef::new(bytes, dtype, shape);
    let options = EncodeOptions::new(Effort::Balanced).extended(true);
    let frame = lattice::encode(&native(), tensor, options)?;
    let limit = bytes.len() as u64;
    assert!(decompress(&Pure, &frame, limit).expect("decodes") == bytes);
    assert!(decompress(&native(), &frame, limit).expect("decodes") == bytes);
    Some(frame)
}

fn parsed(frame: &[u8]) -> lattice::Frame<'_> {
    match Frame::parse(frame).expect("a frame") {
        Frame::Lattice(frame) => frame,
        other => panic!("another frame: {other:?}"),
    }
}
