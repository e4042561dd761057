//! `ZXQ1` frames: golden vectors, and the tensors that the encoder recognises as
//! lattices.

#![allow(clippy::cast_possible_truncation)] // the numbers fit

mod damage;
mod round_trips;

use zstn_core::TensorRef;
use zstn_core::dtype::Dtype;
use zstn_core::frame::select::{self, Effort, EncodeOptions};
use zstn_core::frame::{Families, Family, Frame, decompress, lattice};
use zstn_core::pure::Pure;
use zstn_tests::frames::{LatticeFields, stored};
use zstn_tests::native;
use zstn_tests::rng::Rng;

use crate::vectors_decode;

const DTYPES: [Dtype; 3] = [Dtype::Bf16, Dtype::F16, Dtype::F32];

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
    let mut out = vec![0xAA; bytes.len()];
    let parsed = Frame::parse(&frame).expect("it has just been parsed");
    parsed.decode(&native(), &mut out).expect("decodes");
    assert!(out == bytes, "decoding in place differs");
    Some(frame)
}

fn parsed(frame: &[u8]) -> lattice::Frame<'_> {
    match Frame::parse(frame).expect("a frame") {
        Frame::Lattice(frame) => frame,
        other => panic!("another frame: {other:?}"),
    }
}

#[test]
fn every_vector_decodes() {
    vectors_decode("zxq1", 21);
}

fn weights(dtype: Dtype, count: usize) -> Vec<u8> {
    let mut rng = Rng(3);
    match dtype {
        Dtype::F32 => (0..count)
            .flat_map(|_| (rng.normal(0.02) as f32).to_le_bytes())
            .collect(),
        // Random half-precision values serve as well as any others.
        _ => rng.bf16_weights(count),
    }
}

#[test]
fn plain_weights_are_on_no_grid() {
    for dtype in DTYPES {
        let bytes = weights(dtype, 512 * 384);
        assert_eq!(coded(&bytes, dtype, &[512, 384]), None, "{dtype}");
    }
}

#[test]
fn the_smallest_frame_wins_and_only_where_extensions_are_allowed() {
    let bytes = made(Grid::Integers(7), Dtype::Bf16, [128, 512, 1, 128], 5);
    let tensor = TensorRef::new(&bytes, Dtype::Bf16, &[128, 512]);
    for effort in [Effort::Fast, Effort::Balanced, Effort::Max] {
        let options = EncodeOptions::new(effort);
        assert!(!options.is_extended());
        let plain = select::encode(&native(), tensor, options);
        let extended = select::encode(&native(), tensor, options.extended(true));
        assert_eq!(Family::recognise(&extended), Some(Family::Lattice));
        assert!(extended.len() * 10 < plain.len() * 9, "{}", plain.len());
        let family = Family::recognise(&plain).expect("a frame");
        assert!(Families::CONTAINER.contains(family), "{}", family.name());
        let back = options.extended(true).extended(false);
        assert_eq!(back, options);
        if effort == Effort::Max {
            continue; // it stores weights that are on no grid in intervals
        }
        let weights = weights(Dtype::Bf16, 65536);
        let weights = tensor.with_bytes(&weights);
        let plain = select::encode(&native(), weights, options);
        assert!(select::encode(&native(), weights, options.extended(true)) == plain);
    }
}

#[test]
fn small_tensors_may_be_lattices_too() {
    let bytes = made(Grid::F16, Dtype::F32, [32, 64, 1, 64], 8);
    let tensor = TensorRef::new(&bytes, Dtype::F32, &[32, 64]);
    let options = EncodeOptions::default().extended(true);
    let frame = select::encode(&native(), tensor, options);
    assert_eq!(Family::recognise(&frame), Some(Family::Lattice));
}

/// Unlike palette, sparse and other frames that are built in memory, lattice frames are
/// not limited to 128 MiB.
#[test]
fn matrices_of_large_models_may_be_lattices() {
    const BLOCKS: u64 = 130; // of 1 MiB
    let block = made(Grid::Integers(7), Dtype::Bf16, [64, 8192, 1, 128], 5);
    let bytes = block.repeat(BLOCKS as usize);
    let shape = [64 * BLOCKS, 8192];
    let tensor = TensorRef::new(&bytes, Dtype::Bf16, &shape);
    let options = EncodeOptions::new(Effort::Fast).extended(true);
    let frame = select::encode(&native(), tensor, options);
    assert_eq!(Family::recognise(&frame), Some(Family::Lattice));
}

#[test]
fn frames_do_not_depend_on_the_number_of_threads() {
    let bytes = made(Grid::Offset(15), Dtype::Bf16, [300, 1024, 1, 64], 5);
    let tensor = TensorRef::new(&bytes, Dtype::Bf16, &[300, 1024]);
    let options = EncodeOptions::default().extended(true);
    let [one, two] = [1, 3].map(|threads| {
        let engine = zstn::Engine::new(threads).expect("threads");
        lattice::encode(&engine, tensor, options).expect("a lattice")
    });
    assert!(one == two);
}

#[test]
fn scales_take_the_shortest_dtype_and_experts_their_own_rows() {
    // Scales that are powers of two fit bfloat16. The rows of stacked matrices are
    // along the last dimension.
    let mut bytes = made(Grid::Integers(7), Dtype::F32, [64, 256, 64, 256], 5);
    for (row, bytes) in bytes.chunks_mut(1024).enumerate() {
        let power = [1.0f32, 2.0, 0.5, 0.25][row % 4];
        for element in bytes.as_chunks_mut::<4>().0 {
            *element = (f32::from_le_bytes(*element) * power).to_le_bytes();
        }
    }
    let frame = coded(&bytes, Dtype::F32, &[4, 16, 256]).expect("a lattice");
    let head = parsed(&frame).head().clone();
    assert_eq!((head.geometry.rows, head.geometry.group_rows), (64, 1));
    assert_eq!(head.geometry.group_columns, 256);
    assert_eq!(head.grid, lattice::Grid::Integers { largest: 7 });
}

#[test]
fn shapes_and_lengths_that_disagree_are_left_alone() {
    let bytes = made(Grid::Integers(7), Dtype::Bf16, [64, 64, 1, 64], 5);
    for shape in [
        &[][..],
        &[4096],
        &[64, 63],
        &[0, 64],
        &[u64::MAX, 2],
        &[1 << 40, 1 << 40],
    ] {
        assert_eq!(coded(&bytes, Dtype::Bf16, shape), None, "{shape:?}");
    }
    assert_eq!(coded(&bytes, Dtype::I16, &[64, 64]), None);
    assert!(coded(&bytes, Dtype::Bf16, &[64, 64]).is_some());
}

#[test]
fn infinities_and_nan_are_on_no_grid() {
    for dtype in DTYPES {
        let mut bytes = weights(dtype, 512 * 384);
        for element in bytes.chunks_exact_mut(dtype.len_bytes().expect("whole bytes") * 5) {
            element.fill(0xFF);
        }
        assert_eq!(coded(&bytes, dtype, &[512, 384]), None, "{dtype}");
    }
}
