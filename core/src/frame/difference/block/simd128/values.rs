//! Combines symbols and raw bits into values.
//!
//! The number of raw bits of an element is computed arithmetically from its
//! symbol, without a table lookup per element. The bits of each element are
//! extracted from one window by two byte shuffles. Because each lane needs a
//! different shift distance, shifts are replaced by multiplications by powers of
//! two.

use core::arch::wasm32::{
    i8x16_shuffle, i8x16_swizzle, i16x8_add, i16x8_gt, i16x8_mul, i16x8_shl, i16x8_sub,
    u8x16_splat, u16x8_extend_low_u8x16, u16x8_extract_lane, u16x8_shr, u16x8_splat, u64x2, v128,
    v128_and, v128_any_true, v128_or,
};

use super::LANES;
use super::lanes::{bytes, words};
use crate::frame::difference::block::SHIFT_MASK;
use crate::frame::difference::block::raw_bits::RawBits;
use crate::frame::difference::token::DIRECT;

/// Length of a window in bytes.
const WINDOW_BYTES: usize = 16;
/// The maximum number of raw bits of eight elements that can be read from a
/// window. They begin at most 7 bits after its start, and the last element reads
/// up to three bytes from the one where its bits begin.
const WINDOW_BITS: usize = 8 * (WINDOW_BYTES - 2) - 7;

/// Powers of two; indices above 7 give 0.
const POWERS: u64 = u64::from_le_bytes([1, 2, 4, 8, 16, 32, 64, 128]);

/// Returns the values of 16-bit elements, or `None` if their raw bits do not fit
/// into a window or are close to the end of the block.
#[inline(always)]
pub fn values_of(raw: &mut RawBits, symbols: &[u8; LANES], choices: &[u16; LANES]) -> Option<v128> {
    let symbols = u16x8_extend_low_u8x16(u64x2(u64::from_le_bytes(*symbols), 0));
    let shifts = v128_and(words(choices), u16x8_splat(SHIFT_MASK));
    #[allow(clippy::cast_possible_truncation)] // 32
    let are_large = i16x8_gt(symbols, u16x8_splat(DIRECT as u16 - 1));
    let extra = i16x8_sub(u16x8_shr(symbols, 1), u16x8_splat(12));
    let lens = i16x8_add(v128_and(are_large, extra), shifts);
    if !v128_any_true(lens) {
        return Some(symbols);
    }
    // The leading bits of large values have the value 2 or 3.
    let less = i16x8_sub(v128_and(symbols, u16x8_splat(0xFE)), u16x8_splat(2));
    let leads = i16x8_sub(symbols, v128_and(are_large, less));
    let bits = raw_bits(raw, lens)?;
    // The low byte of a power is nonzero only for lengths 0 to 7, and the high
    // byte only for 8 to 15, so 2^16 and higher powers become 0.
    let places = i16x8_sub(twice(lens), u16x8_splat(8 << 8));
    let powers = i8x16_swizzle(u64x2(POWERS, 0), places);
    let masks = i16x8_sub(powers, u16x8_splat(1));
    Some(i16x8_add(i16x8_mul(leads, powers), v128_and(bits, masks)))
}

/// Reads `lens` bits for each lane; the bits above them are undefined. Returns
/// `None` without advancing if there are too many bits or the end of the block
/// is close.
#[inline(always)]
fn raw_bits(raw: &mut RawBits, lens: v128) -> Option<v128> {
    let ends = sums(lens);
    let len_bits = usize::from(u16x8_extract_lane::<7>(ends));
    if len_bits > WINDOW_BITS {
        return None;
    }
    let left = raw.bytes.get(raw.position_bits / 8..)?;
    let window = bytes(left.first_chunk::<WINDOW_BYTES>()?);
    #[allow(clippy::cast_possible_truncation)] // below 8
    let first = u16x8_splat(raw.position_bits as u16 % 8);
    raw.position_bits += len_bits;
    let starts = i16x8_add(i16x8_sub(ends, lens), first);
    // Indices of the first byte that holds bits of a lane, and of the next two
    // bytes.
    let low = i16x8_add(twice(u16x8_shr(starts, 3)), u16x8_splat(1 << 8));
    let high = i16x8_add(low, u16x8_splat(0x0101));
    // Factors that shift left until seven bits are below the first one.
    let bit = v128_and(starts, u16x8_splat(7));
    let factors = i8x16_swizzle(
        u64x2(POWERS.swap_bytes(), 0),
        v128_or(bit, u16x8_splat(0x8000)),
    );
    // Each half gets nine bits; the highest bit of the low half is the lowest of
    // the high half.
    let [low, high] = [low, high].map(|places| {
        let moved = i16x8_mul(i8x16_swizzle(window, places), factors);
        u16x8_shr(moved, 7)
    });
    Some(v128_or(low, i16x8_shl(high, 8)))
}

/// Copies the low byte of each lane into its high byte, which must be 0.
#[inline(always)]
fn twice(lanes: v128) -> v128 {
    v128_or(lanes, i16x8_shl(lanes, 8))
}

/// Returns the running totals of the lanes.
#[inline(always)]
fn sums(lanes: v128) -> v128 {
    let zero = u8x16_splat(0);
    let one_up = i8x16_shuffle::<14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29>(
        zero, lanes,
    );
    let lanes = i16x8_add(lanes, one_up);
    let two_up = i8x16_shuffle::<12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27>(
        zero, lanes,
    );
    let lanes = i16x8_add(lanes, two_up);
    let four_up =
        i8x16_shuffle::<8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23>(zero, lanes);
    i16x8_add(lanes, four_up)
}
