//! Types of 4-bit floats, whose scales are floats of 8 bits.

use core::array;

use super::low_then_high;

/// Twice the values of the 4-bit floats.
const DOUBLED: [f32; 16] = [
    0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 0.0, -1.0, -2.0, -3.0, -4.0, -6.0, -8.0, -12.0,
];

/// The exponent of the scale, then 4 bits for each element.
pub(super) fn mxfp4(block: &[u8; 17]) -> [f32; 32] {
    let scale = half_power(block[0]);
    array::from_fn(|i| scale * DOUBLED[usize::from(low_then_high(&block[1..], i))])
}

/// Returns half of the power of two with this biased exponent. The two least
/// ones are subnormal.
fn half_power(exponent: u8) -> f32 {
    f32::from_bits(match exponent {
        0 => 0x0020_0000,
        1 => 0x0040_0000,
        _ => (u32::from(exponent) - 1) << 23,
    })
}

/// 4 scales for 16 elements each, then 4 bits for each element.
pub(super) fn nvfp4(block: &[u8; 36]) -> [f32; 64] {
    array::from_fn(|i| {
        let group = i / 16;
        let codes = &block[4 + 8 * group..12 + 8 * group];
        let code = low_then_high(codes, i % 16);
        half_unsigned_e4m3(block[group]) * DOUBLED[usize::from(code)]
    })
}

/// Returns half of the 8-bit float with 4 exponent bits, whose sign is ignored;
/// 0 for the NaN without a sign.
fn half_unsigned_e4m3(byte: u8) -> f32 {
    if byte == 0x7f {
        return 0.0;
    }
    let (exponent, mantissa) = (byte >> 3 & 15, f32::from(byte & 7));
    let (power, significand) = match exponent {
        0 => (1, mantissa / 8.0),
        _ => (u32::from(exponent), 1.0 + mantissa / 8.0),
    };
    // 2^(power − 7), and 1 less for the half. Both operations are exact.
    f32::from_bits((power + 127 - 8) << 23) * significand
}
