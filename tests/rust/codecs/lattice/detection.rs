//! Which tensors the encoder recognises as lattices, and which it does not.

use zstn_core::TensorRef;
use zstn_core::dtype::Dtype;
use zstn_core::frame::select::{self, Effort, EncodeOptions};
use zstn_core::frame::{Families, Family, lattice};
use zstn_tests::rng::Rng;

use super::{DTYPES, Grid, coded, made, native, parsed};

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
