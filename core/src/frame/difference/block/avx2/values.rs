//! Combines symbols and raw bits into values.
//!
//! Raw bits are read from four 64-bit windows at once, one for each 64 bits of
//! elements. The number of raw bits of an element is computed arithmetically
//! from its symbol, without a table lookup per element.

use core::arch::x86_64::{
    __m256i, _mm_set_epi64x, _mm_setr_epi16, _mm256_add_epi16, _mm256_add_epi32, _mm256_and_si256,
    _mm256_andnot_si256, _mm256_blend_epi16, _mm256_blend_epi32, _mm256_castsi256_pd,
    _mm256_cmpgt_epi16, _mm256_cmpgt_epi32, _mm256_cvtepu8_epi16, _mm256_cvtepu8_epi32,
    _mm256_cvtepu16_epi32, _mm256_movemask_pd, _mm256_mullo_epi16, _mm256_set1_epi16,
    _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_setr_epi64x, _mm256_slli_epi64,
    _mm256_sllv_epi32, _mm256_srli_epi16, _mm256_srli_epi32, _mm256_srli_epi64, _mm256_srlv_epi64,
    _mm256_sub_epi16, _mm256_sub_epi32, _mm256_sub_epi64,
};

use super::lanes::{look_up, quarters_of, sixteen, twice, words};
use super::{HALVES, SINGLES};
use crate::frame::difference::block::SHIFT_MASK;
use crate::frame::difference::block::raw_bits::RawBits;
use crate::frame::difference::token::DIRECT;

/// The minimum number of bits in a window, whatever its bit offset within the
/// first byte.
const WINDOW_BITS: i64 = 57;
/// The number of bytes that contain four windows: the last window begins at
/// most 7 + 3 * 57 bits after the start, which is within 32 bytes, a power of
/// two. The length of a window is added.
const WINDOWS_BYTES: usize = 32 + 8;

/// Returns the values of 16-bit elements, or `None` if their raw bits do not
/// fit into windows or are close to the end of the block.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
pub fn values_of_halves(
    raw: &mut RawBits,
    symbols: &[u8; HALVES],
    choices: &[u16; HALVES],
) -> Option<__m256i> {
    let symbols = _mm256_cvtepu8_epi16(sixteen(symbols));
    let shifts = _mm256_and_si256(words(choices), _mm256_set1_epi16(SHIFT_MASK.cast_signed()));
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // 32
    let are_large = _mm256_cmpgt_epi16(symbols, _mm256_set1_epi16(DIRECT as i16 - 1));
    // The leading bits of large values have the value 2 or 3.
    let even = _mm256_and_si256(symbols, _mm256_set1_epi16(0xFE));
    let less = _mm256_sub_epi16(even, _mm256_set1_epi16(2));
    let leads = _mm256_sub_epi16(symbols, _mm256_and_si256(are_large, less));
    let extra = _mm256_sub_epi16(_mm256_srli_epi16::<1>(symbols), _mm256_set1_epi16(12));
    let lens = _mm256_add_epi16(_mm256_and_si256(are_large, extra), shifts);
    // The running total of raw bits up to the end of each element, within its
    // 64 bits.
    let ends = _mm256_add_epi16(lens, _mm256_slli_epi64::<16>(lens));
    let ends = _mm256_add_epi16(ends, _mm256_slli_epi64::<32>(ends));
    let windows = windows(raw, _mm256_srli_epi64::<48>(ends))?;
    let low = _mm256_set1_epi64x(0xFFFF);
    let second = _mm256_srlv_epi64(windows, _mm256_and_si256(ends, low));
    let third = _mm256_and_si256(_mm256_srli_epi64::<16>(ends), low);
    let third = _mm256_srlv_epi64(windows, third);
    let fourth = _mm256_and_si256(_mm256_srli_epi64::<32>(ends), low);
    let fourth = _mm256_srlv_epi64(windows, fourth);
    let joined = _mm256_blend_epi16::<0b0010_0010>(windows, _mm256_slli_epi64::<16>(second));
    let joined = _mm256_blend_epi16::<0b0100_0100>(joined, _mm256_slli_epi64::<32>(third));
    let joined = _mm256_blend_epi16::<0b1000_1000>(joined, _mm256_slli_epi64::<48>(fourth));
    // Powers of two; 2^16 and higher powers become 0.
    let powers = look_up(
        twice(&[1, 2, 4, 8, 16, 32, 64, 128, 0, 0, 0, 0, 0, 0, 0, 0]),
        twice(&[0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128]),
        _mm256_add_epi16(lens, _mm256_set1_epi16(0x70)),
    );
    let masks = _mm256_sub_epi16(powers, _mm256_set1_epi16(1));
    Some(_mm256_add_epi16(
        _mm256_mullo_epi16(leads, powers),
        _mm256_and_si256(joined, masks),
    ))
}

/// Returns the values of 32-bit elements, like [`values_of_halves`].
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
pub fn values_of_singles(
    raw: &mut RawBits,
    symbols: &[u8; SINGLES],
    choices: &[u16; SINGLES],
) -> Option<__m256i> {
    let symbols = u64::from_le_bytes(*symbols).cast_signed();
    let symbols = _mm256_cvtepu8_epi32(_mm_set_epi64x(0, symbols));
    let [a, b, c, d, e, f, g, h] = choices.map(u16::cast_signed);
    let choices = _mm256_cvtepu16_epi32(_mm_setr_epi16(a, b, c, d, e, f, g, h));
    let shifts = _mm256_and_si256(choices, _mm256_set1_epi32(SHIFT_MASK.into()));
    let are_large = _mm256_cmpgt_epi32(symbols, _mm256_set1_epi32(DIRECT.cast_signed() - 1));
    let even = _mm256_and_si256(symbols, _mm256_set1_epi32(0xFE));
    let less = _mm256_sub_epi32(even, _mm256_set1_epi32(2));
    let leads = _mm256_sub_epi32(symbols, _mm256_and_si256(are_large, less));
    let extra = _mm256_sub_epi32(_mm256_srli_epi32::<1>(symbols), _mm256_set1_epi32(12));
    let lens = _mm256_add_epi32(_mm256_and_si256(are_large, extra), shifts);
    let ends = _mm256_add_epi32(lens, _mm256_slli_epi64::<32>(lens));
    let windows = windows(raw, _mm256_srli_epi64::<32>(ends))?;
    let first = _mm256_and_si256(ends, _mm256_set1_epi64x(0xFFFF_FFFF));
    let second = _mm256_srlv_epi64(windows, first);
    let joined = _mm256_blend_epi32::<0b1010_1010>(windows, _mm256_slli_epi64::<32>(second));
    // Shifts by 32 or more give 0.
    let above = _mm256_sllv_epi32(_mm256_set1_epi32(-1), lens);
    Some(_mm256_add_epi32(
        _mm256_sllv_epi32(leads, lens),
        _mm256_andnot_si256(above, joined),
    ))
}

/// Reads one window for each 64 bits of elements and advances by the numbers of
/// bits in `lens`. Returns `None` without advancing if a window is too short or
/// the end of the block is close.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn windows(raw: &mut RawBits, lens: __m256i) -> Option<__m256i> {
    let spare = _mm256_sub_epi64(_mm256_set1_epi64x(WINDOW_BITS), lens);
    if _mm256_movemask_pd(_mm256_castsi256_pd(spare)) != 0 {
        return None;
    }
    let left = raw.bytes.get(raw.position_bits / 8..)?;
    let left = left.first_chunk::<WINDOWS_BYTES>()?;
    let word = |start_bits: usize| {
        let start = start_bits / 8 % (WINDOWS_BYTES - 8);
        let word = left[start..]
            .first_chunk()
            .map_or(0, |word| u64::from_le_bytes(*word));
        (word >> (start_bits % 8)).cast_signed()
    };
    #[allow(clippy::cast_possible_truncation)] // at most 57
    let [a, b, c, d] = quarters_of(lens).map(|len| len as usize);
    let first = raw.position_bits % 8;
    let (second, third, fourth) = (first + a, first + a + b, first + a + b + c);
    raw.position_bits += a + b + c + d;
    Some(_mm256_setr_epi64x(
        word(first),
        word(second),
        word(third),
        word(fourth),
    ))
}
