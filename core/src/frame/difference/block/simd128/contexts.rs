//! Looks up the contexts of 16 elements at once by their exponents.

use core::arch::wasm32::{
    i8x16_shuffle, i8x16_splat, i8x16_sub, i8x16_swizzle, i16x8_splat, i16x8_sub, u8x16_min,
    u8x16_narrow_i16x8, u8x16_splat, u16x8_shr, v128, v128_and, v128_or,
};

use super::LANES;
use super::lanes::{bytes, words_of};
use crate::frame::difference::context::{BY_MANTISSA, ContextMap, ExponentTable, SAME};
use crate::frame::difference::element::Float;

/// Number of elements whose exponents fill a vector.
const GROUP: usize = 2 * LANES;

/// Writes the numbers assigned to contexts, like [`ContextMap::fill`].
#[inline(always)]
pub fn fill<F: Float>(map: &ContextMap, code: u8, predicted: &[u8], choices: &mut [u16]) {
    if code == SAME || code == BY_MANTISSA {
        return map.fill::<F>(code, predicted, choices);
    }
    let (table, origin) = map.by_exponent::<F>(code);
    let (words, _) = predicted.as_chunks::<{ 2 * GROUP }>();
    let (whole, rest) = choices.as_chunks_mut::<GROUP>();
    match table.last / 16 {
        0 => fill_by::<F, 1>(table, origin, words, whole),
        1 => fill_by::<F, 2>(table, origin, words, whole),
        _ => fill_by::<F, { ExponentTable::PARTS }>(table, origin, words, whole),
    }
    map.fill::<F>(code, &predicted[2 * GROUP * words.len()..], rest);
}

#[inline(always)]
fn fill_by<F: Float, const PARTS: usize>(
    table: &ExponentTable,
    origin: i16,
    predicted: &[[u8; 2 * GROUP]],
    choices: &mut [[u16; GROUP]],
) {
    let tables: [_; PARTS] =
        core::array::from_fn(|part| [bytes(&table.low[part]), bytes(&table.high[part])]);
    #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap)] // at most 255
    let mask = i16x8_splat(F::EXPONENT_MASK as i16);
    let origin = i16x8_splat(origin);
    let last = u8x16_splat(table.last.to_le_bytes()[0]);
    // Indices into the table; exponents before its first entry become 0.
    let numbers = |predicted: v128| {
        let exponents = v128_and(u16x8_shr(predicted, F::MANTISSA_BITS), mask);
        i16x8_sub(exponents, origin)
    };
    for (predicted, choices) in predicted.iter().zip(choices) {
        let (halves, _) = predicted.as_chunks::<{ 2 * LANES }>();
        let [first, second] = [0, 1].map(|half: usize| numbers(bytes(&halves[half])));
        let numbers = u8x16_min(u8x16_narrow_i16x8(first, second), last);
        let (mut low, mut high) = (i8x16_splat(0), i8x16_splat(0));
        for (part, tables) in (0i8..).zip(tables) {
            // The lookup of an index of another part returns 0.
            let own = i8x16_sub(numbers, i8x16_splat(16 * part));
            low = v128_or(low, i8x16_swizzle(tables[0], own));
            high = v128_or(high, i8x16_swizzle(tables[1], own));
        }
        let found = [
            i8x16_shuffle::<0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23>(low, high),
            i8x16_shuffle::<8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31>(
                low, high,
            ),
        ];
        let (out, _) = choices.as_chunks_mut::<LANES>();
        for (out, found) in out.iter_mut().zip(found) {
            *out = words_of(found);
        }
    }
}
