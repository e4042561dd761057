//! Types whose elements are points of a grid: eight or four at a time.

use core::array;

use half::f16;

use super::grids::{IQ1, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS};
use super::{half_at, u16_at, u32_at};
use crate::container::foreign::byte_order::ByteOrder;

/// The distance by which the points of IQ1 are moved.
const IQ1_SHIFT: f32 = 0.125;

/// Decodes 32 spans of eight elements.
fn spans(span: impl Fn(usize) -> [f32; 8]) -> [f32; 256] {
    let spans: [[f32; 8]; 32] = array::from_fn(span);
    array::from_fn(|i| spans[i / 8][i % 8])
}

/// Returns the point times the scale, negated where a bit of `signs` is set.
fn signed(point: [f32; 8], scale: f32, signs: u8) -> [f32; 8] {
    array::from_fn(|i| {
        let value = scale * point[i];
        if signs >> i & 1 == 1 { -value } else { value }
    })
}

/// Returns eight signs from seven bits: the number of minus signs is even.
fn even_signs(bits: u32) -> u8 {
    let bits = (bits & 127) as u8;
    bits | ((bits.count_ones() & 1) as u8) << 7
}

/// Returns the point of eight coordinates that consists of two points.
fn joined(first: [f32; 4], second: [f32; 4]) -> [f32; 8] {
    array::from_fn(|i| if i < 4 { first[i] } else { second[i - 4] })
}

/// The scale, then for each 32 elements four numbers of points, four times
/// seven bits of signs, and 4 bits of scale.
pub(super) fn iq2_xxs(block: &[u8; 66], order: ByteOrder) -> [f32; 256] {
    let scale = half_at(block, 0, order);
    spans(|n| {
        let at = 2 + 8 * (n / 4);
        let (numbers, rest) = (u32_at(block, at, order), u32_at(block, at + 4, order));
        let scale = scale * (0.5 + (rest >> 28) as f32) * 0.25;
        let number = numbers >> (8 * (n % 4)) & 255;
        let signs = even_signs(rest >> (7 * (n % 4)));
        signed(IQ2_XXS.point(number as usize), scale, signs)
    })
}

/// Returns the scale of span `n` from the half bytes at `scales`, one for each
/// two spans.
fn scale_of_two(scale: f32, scales: &[u8], n: usize) -> f32 {
    let code = scales[n / 4] >> (4 * (n % 4 / 2)) & 15;
    scale * (0.5 + f32::from(code)) * 0.25
}

/// The scale, 16 bits for each span of eight elements (9 of the point and 7 of
/// signs), and 8 bytes of scales.
pub(super) fn iq2_xs(block: &[u8; 74], order: ByteOrder) -> [f32; 256] {
    let scale = half_at(block, 0, order);
    spans(|n| {
        let code = u16_at(block, 2 + 2 * n, order);
        let point = IQ2_XS.point(usize::from(code & 511));
        let scale = scale_of_two(scale, &block[66..], n);
        signed(point, scale, even_signs((code >> 9).into()))
    })
}

/// The scale, 32 bytes of points, 32 of signs, 8 of upper bits of points, and 8
/// of scales.
pub(super) fn iq2_s(block: &[u8; 82], order: ByteOrder) -> [f32; 256] {
    let scale = half_at(block, 0, order);
    spans(|n| {
        let high = usize::from(block[66 + n / 4] >> (2 * (n % 4)) & 3);
        let point = IQ2_S.point(usize::from(block[2 + n]) | high << 8);
        signed(point, scale_of_two(scale, &block[74..], n), block[34 + n])
    })
}

/// The scale, 64 bytes of points, then for each 32 elements four times seven
/// bits of signs and 4 bits of scale.
pub(super) fn iq3_xxs(block: &[u8; 98], order: ByteOrder) -> [f32; 256] {
    let scale = half_at(block, 0, order);
    spans(|n| {
        let rest = u32_at(block, 66 + 4 * (n / 4), order);
        let scale = scale * (0.5 + (rest >> 28) as f32) * 0.5;
        let half = |k| IQ3_XXS.point(usize::from(block[2 + 2 * n + k]));
        let signs = even_signs(rest >> (7 * (n % 4)));
        signed(joined(half(0), half(1)), scale, signs)
    })
}

/// The scale, 64 bytes of points, 8 of their ninth bits, 32 of signs, and 4 of
/// scales.
pub(super) fn iq3_s(block: &[u8; 110], order: ByteOrder) -> [f32; 256] {
    let scale = half_at(block, 0, order);
    spans(|n| {
        let code = block[106 + n / 8] >> (4 * (n / 4 % 2)) & 15;
        let scale = scale * (1.0 + 2.0 * f32::from(code));
        let half = |k| {
            let number = 2 * n + k;
            let high = usize::from(block[66 + number / 8] >> (number % 8) & 1);
            IQ3_S.point(usize::from(block[2 + number]) | high << 8)
        };
        signed(joined(half(0), half(1)), scale, block[74 + n])
    })
}

/// Returns a ternary point times the scale, after it has been moved down if
/// `is_down`, up otherwise.
fn shifted(number: usize, scale: f32, is_down: bool) -> [f32; 8] {
    let point: [f32; 8] = IQ1.point(number);
    let shift = if is_down { -IQ1_SHIFT } else { IQ1_SHIFT };
    point.map(|coordinate| scale * (coordinate + shift))
}

/// The scale, 32 bytes of points, then for each 32 elements four times 3 upper
/// bits of points, 3 bits of scale, and the direction of the shift.
pub(super) fn iq1_s(block: &[u8; 50], order: ByteOrder) -> [f32; 256] {
    let scale = half_at(block, 0, order);
    spans(|n| {
        let rest = u16_at(block, 34 + 2 * (n / 4), order);
        let scale = scale * f32::from(2 * (rest >> 12 & 7) + 1);
        let high = usize::from(rest >> (3 * (n % 4)) & 7);
        let number = usize::from(block[2 + n]) | high << 8;
        shifted(number, scale, rest >> 15 == 1)
    })
}

/// 32 bytes of points, a half byte for each span (3 upper bits of the point,
/// and the direction of the shift), and four 16-bit fields of four scales of 3
/// bits. Their upper 4 bits are the scale of the block.
pub(super) fn iq1_m(block: &[u8; 56], order: ByteOrder) -> [f32; 256] {
    let fields: [u16; 4] = array::from_fn(|i| u16_at(block, 48 + 2 * i, order));
    let bits = (0..4).fold(0, |bits, i| bits | fields[i] >> 12 << (4 * i));
    let scale = f16::from_bits(bits).to_f32();
    spans(|n| {
        let code = fields[n / 8] >> (3 * (n / 2 % 4)) & 7;
        let scale = scale * f32::from(2 * code + 1);
        let rest = block[32 + n / 2] >> (4 * (n % 2));
        let number = usize::from(block[n]) | usize::from(rest & 7) << 8;
        shifted(number, scale, rest & 8 != 0)
    })
}
