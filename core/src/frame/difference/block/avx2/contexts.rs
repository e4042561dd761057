//! Looks up the contexts of 16 elements at once by their exponents.

use core::arch::x86_64::{
    _mm_cvtsi32_si128, _mm256_add_epi16, _mm256_and_si256, _mm256_max_epi16, _mm256_min_epi16,
    _mm256_or_si256, _mm256_set1_epi16, _mm256_setzero_si256, _mm256_srl_epi16, _mm256_sub_epi16,
};

use super::HALVES;
use super::lanes::{bytes, look_up, twice, words_of};
use crate::frame::difference::context::{BY_MANTISSA, ContextMap, ExponentTable, SAME};
use crate::frame::difference::element::Float;

/// Writes the numbers assigned to contexts, like [`ContextMap::fill`].
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
pub fn fill<F: Float>(map: &ContextMap, code: u8, predicted: &[u8], choices: &mut [u16]) {
    if code == SAME || code == BY_MANTISSA {
        return map.fill::<F>(code, predicted, choices);
    }
    let (table, origin) = map.by_exponent::<F>(code);
    let (words, _) = predicted.as_chunks::<{ 2 * HALVES }>();
    let (whole, rest) = choices.as_chunks_mut::<HALVES>();
    match table.last / 16 {
        0 => fill_by::<F, 1>(table, origin, words, whole),
        1 => fill_by::<F, 2>(table, origin, words, whole),
        2 => fill_by::<F, 3>(table, origin, words, whole),
        _ => fill_by::<F, 4>(table, origin, words, whole),
    }
    map.fill::<F>(code, &predicted[2 * HALVES * words.len()..], rest);
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn fill_by<F: Float, const PARTS: usize>(
    table: &ExponentTable,
    origin: i16,
    predicted: &[[u8; 2 * HALVES]],
    choices: &mut [[u16; HALVES]],
) {
    let mut low = [_mm256_setzero_si256(); PARTS];
    let mut high = low;
    for part in 0..PARTS {
        low[part] = twice(&table.low[part]);
        high[part] = twice(&table.high[part]);
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // at most 255
    let mask = _mm256_set1_epi16(F::EXPONENT_MASK as i16);
    let shift = _mm_cvtsi32_si128(F::MANTISSA_BITS.cast_signed());
    for (predicted, choices) in predicted.iter().zip(choices) {
        let exponents = _mm256_and_si256(_mm256_srl_epi16(bytes(predicted), shift), mask);
        let numbers = _mm256_sub_epi16(exponents, _mm256_set1_epi16(origin));
        let numbers = _mm256_max_epi16(numbers, _mm256_setzero_si256());
        let numbers = _mm256_min_epi16(numbers, _mm256_set1_epi16(table.last));
        let mut found = _mm256_setzero_si256();
        for (part, (low, high)) in (0i16..).zip(low.iter().zip(high)) {
            let own = match PARTS {
                1 => numbers,
                // An index of another part gets the top bit of its byte set, for
                // which the lookup returns 0.
                _ => {
                    let own = _mm256_sub_epi16(numbers, _mm256_set1_epi16(16 * part));
                    _mm256_or_si256(own, _mm256_add_epi16(own, _mm256_set1_epi16(0x70)))
                }
            };
            found = _mm256_or_si256(found, look_up(*low, high, own));
        }
        *choices = words_of(found);
    }
}
