//! Types whose blocks have one scale, and for some a minimum.

use core::array;

use super::{UNEVEN_STEPS, half_at, low_then_high, u32_at};
use crate::container::foreign::byte_order::ByteOrder;

/// The scale, then 4 bits for each element.
pub(super) fn q4_0(block: &[u8; 18], order: ByteOrder) -> [f32; 32] {
    let scale = half_at(block, 0, order);
    array::from_fn(|i| (f32::from(low_then_high(&block[2..], i)) - 8.0) * scale)
}

/// The scale, the minimum, then 4 bits for each element.
pub(super) fn q4_1(block: &[u8; 20], order: ByteOrder) -> [f32; 32] {
    let (scale, minimum) = (half_at(block, 0, order), half_at(block, 2, order));
    array::from_fn(|i| f32::from(low_then_high(&block[4..], i)) * scale + minimum)
}

/// Returns an element of 5 bits, whose highest bit is bit `i` of `high`.
fn five_bits(low: &[u8], high: u32, i: usize) -> f32 {
    f32::from(low_then_high(low, i) | ((high >> i & 1) as u8) << 4)
}

/// The scale, the fifth bits, then the lower 4 bits of each element.
pub(super) fn q5_0(block: &[u8; 22], order: ByteOrder) -> [f32; 32] {
    let (scale, high) = (half_at(block, 0, order), u32_at(block, 2, order));
    array::from_fn(|i| (five_bits(&block[6..], high, i) - 16.0) * scale)
}

/// The scale, the minimum, the fifth bits, then the lower 4 bits of each
/// element.
pub(super) fn q5_1(block: &[u8; 24], order: ByteOrder) -> [f32; 32] {
    let (scale, minimum) = (half_at(block, 0, order), half_at(block, 2, order));
    let high = u32_at(block, 4, order);
    array::from_fn(|i| five_bits(&block[8..], high, i) * scale + minimum)
}

/// The scale, then a signed byte for each element.
pub(super) fn q8_0(block: &[u8; 34], order: ByteOrder) -> [f32; 32] {
    let scale = half_at(block, 0, order);
    array::from_fn(|i| f32::from(block[2 + i].cast_signed()) * scale)
}

/// The scale, then a bit for each element: set for plus, clear for minus.
pub(super) fn q1_0(block: &[u8; 18], order: ByteOrder) -> [f32; 128] {
    let scale = half_at(block, 0, order);
    array::from_fn(|i| match block[2 + i / 8] >> (i % 8) & 1 {
        0 => -scale,
        _ => scale,
    })
}

/// The scale, then 2 bits for each element: 0 is −1.
pub(super) fn q2_0(block: &[u8; 18], order: ByteOrder) -> [f32; 64] {
    let scale = half_at(block, 0, order);
    array::from_fn(|i| {
        let code = block[2 + i / 4] >> (2 * (i % 4)) & 3;
        (f32::from(code) - 1.0) * scale
    })
}

/// 48 bytes of five elements, 4 bytes of four elements, then the scale. A byte
/// is a fraction in base 3, and its first digit is the first element.
pub(super) fn tq1_0(block: &[u8; 54], order: ByteOrder) -> [f32; 256] {
    const POWERS: [u8; 5] = [1, 3, 9, 27, 81];
    let scale = half_at(block, 52, order);
    array::from_fn(|i| {
        let (byte, digit) = match i {
            0..160 => (block[i % 32], i / 32),
            160..240 => (block[32 + i % 16], (i - 160) / 16),
            _ => (block[48 + i % 4], (i - 240) / 4),
        };
        let fraction = byte.wrapping_mul(POWERS[digit]);
        let digit = (u16::from(fraction) * 3) >> 8;
        (f32::from(digit) - 1.0) * scale
    })
}

/// 64 bytes of four elements, then the scale.
pub(super) fn tq2_0(block: &[u8; 66], order: ByteOrder) -> [f32; 256] {
    let scale = half_at(block, 64, order);
    array::from_fn(|i| {
        let (half, shift) = (i / 128, 2 * (i % 128 / 32));
        let code = block[32 * half + i % 32] >> shift & 3;
        (f32::from(code) - 1.0) * scale
    })
}

/// The scale, then 4 bits for each element, which select a step.
pub(super) fn iq4_nl(block: &[u8; 18], order: ByteOrder) -> [f32; 32] {
    let scale = half_at(block, 0, order);
    array::from_fn(|i| scale * UNEVEN_STEPS[usize::from(low_then_high(&block[2..], i))])
}
