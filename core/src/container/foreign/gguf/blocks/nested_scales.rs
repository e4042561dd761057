//! Types of 256 elements in groups, whose scales are small integers times the
//! scale of the block.

use core::array;

use super::{UNEVEN_STEPS, half_at, low_then_high, u16_at};
use crate::container::foreign::byte_order::ByteOrder;

/// Returns the 2 bits of element `i`. Each half of 128 elements has 32 bytes,
/// and a byte has elements that are 32 apart.
fn two_bits(bytes: &[u8], i: usize) -> u8 {
    let shift = 2 * (i % 128 / 32);
    bytes[32 * (i / 128) + i % 32] >> shift & 3
}

/// 16 bytes of a 4-bit scale and a 4-bit minimum, 2 bits for each element, the
/// scale of the scales and that of the minima.
pub(super) fn q2_k(block: &[u8; 84], order: ByteOrder) -> [f32; 256] {
    let (scale, minimum) = (half_at(block, 80, order), half_at(block, 82, order));
    array::from_fn(|i| {
        let group = block[i / 16];
        let scale = scale * f32::from(group & 15);
        let minimum = minimum * f32::from(group >> 4);
        scale * f32::from(two_bits(&block[16..], i)) - minimum
    })
}

/// The third bits (clear means minus 4), the lower 2 bits, 16 scales of 6 bits,
/// and the scale of the block.
pub(super) fn q3_k(block: &[u8; 110], order: ByteOrder) -> [f32; 256] {
    let scale = half_at(block, 108, order);
    let (high, low, scales) = (&block[..32], &block[32..96], &block[96..108]);
    let scales: [f32; 16] = array::from_fn(|group| {
        let low = low_then_high(&scales[..8], group);
        let high = scales[8 + group % 4] >> (2 * (group / 4)) & 3;
        scale * (f32::from(low | high << 4) - 32.0)
    });
    array::from_fn(|i| {
        let is_high = high[i % 32] >> (i / 32) & 1 == 1;
        let offset = if is_high { 0.0 } else { 4.0 };
        scales[i / 16] * (f32::from(two_bits(low, i)) - offset)
    })
}

/// Returns the scale and the minimum of each group of 32, unpacked from 6 bits
/// each and multiplied by those of the block.
fn scales_and_minima(block: &[u8], order: ByteOrder) -> [(f32, f32); 8] {
    let (scale, minimum) = (half_at(block, 0, order), half_at(block, 2, order));
    let packed = &block[4..16];
    array::from_fn(|group| {
        let (s, m) = match group {
            0..4 => (packed[group] & 63, packed[group + 4] & 63),
            _ => {
                let low = packed[group + 4];
                (
                    low & 15 | packed[group - 4] >> 6 << 4,
                    low >> 4 | packed[group] >> 6 << 4,
                )
            }
        };
        (scale * f32::from(s), minimum * f32::from(m))
    })
}

/// Returns half byte `i`, where each 32 bytes have the low halves of 32
/// elements and the high halves of the next 32.
fn half_byte(bytes: &[u8], i: usize) -> u8 {
    let byte = bytes[32 * (i / 64) + i % 32];
    if i % 64 < 32 { byte & 15 } else { byte >> 4 }
}

/// The two scales, 12 bytes of scales and minima of groups, and 4 bits for each
/// element.
pub(super) fn q4_k(block: &[u8; 144], order: ByteOrder) -> [f32; 256] {
    let groups = scales_and_minima(block, order);
    array::from_fn(|i| {
        let (scale, minimum) = groups[i / 32];
        scale * f32::from(half_byte(&block[16..], i)) - minimum
    })
}

/// As `q4_k`, with a fifth bit for each element before the other four.
pub(super) fn q5_k(block: &[u8; 176], order: ByteOrder) -> [f32; 256] {
    let groups = scales_and_minima(block, order);
    array::from_fn(|i| {
        let (scale, minimum) = groups[i / 32];
        let high = block[16 + i % 32] >> (i / 32) & 1;
        scale * f32::from(half_byte(&block[48..], i) | high << 4) - minimum
    })
}

/// The lower 4 bits, the upper 2 bits, 16 signed scales, and the scale of the
/// block.
pub(super) fn q6_k(block: &[u8; 210], order: ByteOrder) -> [f32; 256] {
    let scale = half_at(block, 208, order);
    array::from_fn(|i| {
        let (half, quarter, k) = (i / 128, i % 128 / 32, i % 32);
        let byte = block[64 * half + 32 * (quarter % 2) + k];
        let low = if quarter < 2 { byte & 15 } else { byte >> 4 };
        let high = block[128 + 32 * half + k] >> (2 * quarter) & 3;
        let group = f32::from(block[192 + i / 16].cast_signed());
        scale * group * (f32::from(low | high << 4) - 32.0)
    })
}

/// The scale of the block, the upper 2 and the lower 4 bits of the scales of
/// groups of 32, and 4 bits for each element, which select a step.
pub(super) fn iq4_xs(block: &[u8; 136], order: ByteOrder) -> [f32; 256] {
    let scale = half_at(block, 0, order);
    let high = u16_at(block, 2, order);
    let scales: [f32; 8] = array::from_fn(|group| {
        let low = block[4 + group / 2] >> (4 * (group % 2)) & 15;
        let high = (high >> (2 * group) & 3) as u8;
        scale * (f32::from(low | high << 4) - 32.0)
    });
    array::from_fn(|i| {
        let group = i / 32;
        let codes = &block[8 + 16 * group..24 + 16 * group];
        scales[group] * UNEVEN_STEPS[usize::from(low_then_high(codes, i % 32))]
    })
}
