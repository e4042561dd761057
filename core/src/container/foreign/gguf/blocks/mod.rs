//! Blocks of quantised elements, and the values that llama.cpp gives them
//! (docs/formats/gguf.md 4). Every operation is rounded to single precision and
//! none are fused, so the values are equal bit for bit.

use half::f16;

use super::element_type::ElementType::{
    self, Iq1M, Iq1S, Iq2S, Iq2Xs, Iq2Xxs, Iq3S, Iq3Xxs, Iq4Nl, Iq4Xs, Mxfp4, Nvfp4, Q1_0, Q2_0,
    Q2K, Q3K, Q4_0, Q4_1, Q4K, Q5_0, Q5_1, Q5K, Q6K, Q8_0, Tq1_0, Tq2_0,
};
use crate::container::foreign::byte_order::ByteOrder;

mod float_scales;
mod grid_points;
mod grids;
mod nested_scales;
mod one_scale;

/// Decodes whole blocks to little-endian values. `out` has 4 bytes for each
/// element. Plain types have no blocks, and leave `out` unchanged.
pub(in crate::container::foreign) fn decode(
    element: ElementType,
    order: ByteOrder,
    blocks: &[u8],
    out: &mut [u8],
) {
    match element {
        Q4_0 => each(blocks, out, |block| one_scale::q4_0(block, order)),
        Q4_1 => each(blocks, out, |block| one_scale::q4_1(block, order)),
        Q5_0 => each(blocks, out, |block| one_scale::q5_0(block, order)),
        Q5_1 => each(blocks, out, |block| one_scale::q5_1(block, order)),
        Q8_0 => each(blocks, out, |block| one_scale::q8_0(block, order)),
        Q1_0 => each(blocks, out, |block| one_scale::q1_0(block, order)),
        Q2_0 => each(blocks, out, |block| one_scale::q2_0(block, order)),
        Tq1_0 => each(blocks, out, |block| one_scale::tq1_0(block, order)),
        Tq2_0 => each(blocks, out, |block| one_scale::tq2_0(block, order)),
        Iq4Nl => each(blocks, out, |block| one_scale::iq4_nl(block, order)),
        Q2K => each(blocks, out, |block| nested_scales::q2_k(block, order)),
        Q3K => each(blocks, out, |block| nested_scales::q3_k(block, order)),
        Q4K => each(blocks, out, |block| nested_scales::q4_k(block, order)),
        Q5K => each(blocks, out, |block| nested_scales::q5_k(block, order)),
        Q6K => each(blocks, out, |block| nested_scales::q6_k(block, order)),
        Iq4Xs => each(blocks, out, |block| nested_scales::iq4_xs(block, order)),
        Mxfp4 => each(blocks, out, float_scales::mxfp4),
        Nvfp4 => each(blocks, out, float_scales::nvfp4),
        Iq1S => each(blocks, out, |block| grid_points::iq1_s(block, order)),
        Iq1M => each(blocks, out, |block| grid_points::iq1_m(block, order)),
        Iq2Xxs => each(blocks, out, |block| grid_points::iq2_xxs(block, order)),
        Iq2Xs => each(blocks, out, |block| grid_points::iq2_xs(block, order)),
        Iq2S => each(blocks, out, |block| grid_points::iq2_s(block, order)),
        Iq3Xxs => each(blocks, out, |block| grid_points::iq3_xxs(block, order)),
        Iq3S => each(blocks, out, |block| grid_points::iq3_s(block, order)),
        ElementType::F32
        | ElementType::F16
        | ElementType::Bf16
        | ElementType::F64
        | ElementType::I8
        | ElementType::I16
        | ElementType::I32
        | ElementType::I64 => {}
    }
}

/// Decodes each block of `BYTES` bytes to `ELEMENTS` values.
fn each<const BYTES: usize, const ELEMENTS: usize>(
    blocks: &[u8],
    out: &mut [u8],
    decode: impl Fn(&[u8; BYTES]) -> [f32; ELEMENTS],
) {
    let (blocks, _) = blocks.as_chunks::<BYTES>();
    for (block, out) in blocks.iter().zip(out.chunks_exact_mut(4 * ELEMENTS)) {
        let (out, _) = out.as_chunks_mut::<4>();
        for (value, out) in decode(block).into_iter().zip(out) {
            *out = value.to_le_bytes();
        }
    }
}

/// The values of the 16 steps of IQ4_NL and IQ4_XS.
const UNEVEN_STEPS: [f32; 16] = [
    -127.0, -104.0, -83.0, -65.0, -49.0, -35.0, -22.0, -10.0, 1.0, 13.0, 25.0, 38.0, 53.0, 69.0,
    89.0, 113.0,
];

/// Returns the two bytes at `at` in little-endian order. `at` is a constant of
/// the block's layout, so the bytes are inside it.
fn pair(block: &[u8], at: usize, order: ByteOrder) -> [u8; 2] {
    match order {
        ByteOrder::Little => [block[at], block[at + 1]],
        ByteOrder::Big => [block[at + 1], block[at]],
    }
}

fn u16_at(block: &[u8], at: usize, order: ByteOrder) -> u16 {
    u16::from_le_bytes(pair(block, at, order))
}

fn u32_at(block: &[u8], at: usize, order: ByteOrder) -> u32 {
    let mut bytes = [block[at], block[at + 1], block[at + 2], block[at + 3]];
    if order == ByteOrder::Big {
        bytes.reverse();
    }
    u32::from_le_bytes(bytes)
}

/// Returns the half-precision number at `at`, which is exact in single
/// precision.
fn half_at(block: &[u8], at: usize, order: ByteOrder) -> f32 {
    f16::from_le_bytes(pair(block, at, order)).to_f32()
}

/// Returns half byte `i` of `bytes`, where the low halves of all bytes come
/// before the high halves.
fn low_then_high(bytes: &[u8], i: usize) -> u8 {
    match i < bytes.len() {
        true => bytes[i] & 15,
        false => bytes[i - bytes.len()] >> 4,
    }
}
