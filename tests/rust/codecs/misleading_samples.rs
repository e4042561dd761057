//! Tensors with misleading short samples: distant repetitions of whole elements, rows
//! of zeros, and codes that differ between positions.

use zstn::Engine;
use zstn_core::TensorRef;
use zstn_core::dtype::Dtype;
use zstn_core::engine::ZstdCoding;
use zstn_core::frame::plane::Method;
use zstn_core::frame::select::{Effort, encode};
use zstn_core::frame::z4ai::{self, BlockCodecs, PlaneRecipe, Recipe, Transform};
use zstn_core::frame::{Frame, decompress, sparse, turbo};
use zstn_core::pure::Pure;
use zstn_tests::rng::Rng;

/// Encodes `tensor` with effort `Balanced`, checks that it is restored, and returns the
/// frame.
fn coded(tensor: &[u8], dtype: Dtype) -> Vec<u8> {
    let engine = Engine::new(1).unwrap();
    let tensor = TensorRef::flat(tensor, Some(dtype));
    let frame = encode(&engine, tensor, Effort::Balanced);
    let restored = decompress(&Pure, &frame, 1 << 32);
    assert!(restored.unwrap() == tensor.bytes, "{dtype:?}");
    frame
}

/// Returns the length of a frame that uses a search after this transform.
fn searched(tensor: &[u8], transform: Transform) -> usize {
    let plane = PlaneRecipe::Blocks(BlockCodecs {
        search: Some(ZstdCoding::Search(3)),
        ..BlockCodecs::HUFFMAN
    });
    let planes = vec![plane; transform.planes()];
    let engine = Engine::new(1).unwrap();
    z4ai::encode(&engine, tensor, &Recipe { transform, planes }).len()
}

#[allow(clippy::cast_possible_truncation)]
fn f32_weights(rng: &mut Rng, count: usize) -> Vec<u8> {
    let value = |rng: &mut Rng| (rng.normal(0.02) as f32).to_le_bytes();
    (0..count).flat_map(|_| value(rng)).collect()
}

/// Copies are closer together in planes than in whole elements. Comparing short samples
/// of planes with long samples of whole elements would choose the wrong one.
#[test]
fn a_block_repeated_five_times_costs_little_more_than_one() {
    let block = f32_weights(&mut Rng(41), 25_600);
    let once = coded(&block, Dtype::F32).len();
    let five_times = coded(&block.repeat(5), Dtype::F32).len();
    assert!(
        five_times * 100 < once * 103,
        "{five_times} for five, {once} for one"
    );
}

/// A Fourier basis: every value occurs several times, mostly further apart than a
/// sample window.
#[test]
fn values_that_repeat_far_apart_are_searched_in_whole_elements() {
    #[allow(clippy::cast_possible_truncation)]
    let value = |row: usize, column: usize| {
        let turn = std::f64::consts::TAU * (row % 129 * column % 256) as f64 / 256.0;
        let wave = if row < 129 { turn.cos() } else { turn.sin() };
        let window = 0.5 - 0.5 * (std::f64::consts::TAU * column as f64 / 256.0).cos();
        ((wave * window) as f32).to_le_bytes()
    };
    let at = |row| (0..256).flat_map(move |column| value(row, column));
    let tensor: Vec<u8> = (0..258).flat_map(at).collect();
    let whole = searched(&tensor, Transform::Opaque);
    let cut = searched(&tensor, Transform::BytePlane(4));
    assert!(whole * 100 < cut * 97, "{whole} whole, {cut} in planes");
    let len = coded(&tensor, Dtype::F32).len();
    assert!(len <= whole + 16, "{len}, {whole} by a search");
}

/// The delta of a fine-tuned embedding with few changed rows.
#[test]
fn rows_of_zeros_get_a_sparse_frame() {
    let mut rng = Rng(43);
    let mut tensor = vec![0; 4000 * 768];
    for row in tensor.chunks_exact_mut(768) {
        if rng.next_u64().is_multiple_of(16) {
            for element in row.as_chunks_mut::<2>().0 {
                *element = [rng.bytes(1)[0] & rng.bytes(1)[0], 0];
            }
        }
    }
    let engine = Engine::new(1).unwrap();
    let codings = [ZstdCoding::Huffman, ZstdCoding::Search(3)];
    let cut = turbo::TurboTransform::BytePlane;
    let sparse = sparse::encode(&engine, &tensor, 2, cut, &codings).len();
    let len = coded(&tensor, Dtype::Bf16).len();
    assert!(len <= sparse, "{len}, {sparse} sparse");
}

/// One in sixteen elements is zero, unlike in ordinary weights. One bit per element
/// then costs less than coding the zeros among the values.
#[test]
fn a_few_zeros_are_enough_for_a_sparse_frame_to_be_considered() {
    let mut rng = Rng(44);
    let mut tensor = rng.bf16_weights(300_000);
    for element in tensor.as_chunks_mut::<2>().0 {
        if rng.next_u64().is_multiple_of(16) {
            *element = [0; 2];
        }
    }
    let engine = Engine::new(1).unwrap();
    let cut = turbo::TurboTransform::BytePlane;
    let sparse = sparse::encode(&engine, &tensor, 2, cut, &[ZstdCoding::Huffman]).len();
    let len = coded(&tensor, Dtype::Bf16).len();
    assert!(len <= sparse, "{len}, {sparse} sparse");
}

/// Each exponent is close to the previous one, because magnitudes change slowly along
/// the tensor.
#[test]
fn exponents_that_resemble_their_neighbours_take_order_one() {
    let mut rng = Rng(45);
    let mut scale = 0.0f64;
    let mut tensor = Vec::new();
    for _ in 0..200_000 {
        scale = (scale + rng.normal(0.4)).clamp(-12.0, 0.0);
        #[allow(clippy::cast_possible_truncation)]
        let value = (rng.normal(1.0).signum() * scale.exp2()) as f32;
        let mantissa = u32::from_le_bytes(rng.bytes(4).try_into().unwrap()) & 0x7F_FFFF;
        tensor.extend_from_slice(&(value.to_bits() & !0x7F_FFFF | mantissa).to_le_bytes());
    }
    let frame = coded(&tensor, Dtype::F32);
    let Frame::Z4ai(frame) = Frame::parse(&frame).unwrap() else {
        panic!("no frame of planes")
    };
    let methods: Vec<Method> = frame.planes().iter().map(|plane| plane.method()).collect();
    assert!(methods.contains(&Method::RansOrder1), "{methods:?}");
}
