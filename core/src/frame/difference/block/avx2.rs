//! Decodes parts of blocks with vectors of 32 bytes: 16 elements of 16 bits, or
//! 8 elements of 32 bits.

use core::arch::x86_64::{
    __m128i, __m256i, _mm_cvtsi32_si128, _mm_set_epi64x, _mm_setr_epi16, _mm256_add_epi16,
    _mm256_add_epi32, _mm256_and_si256, _mm256_andnot_si256, _mm256_blend_epi16,
    _mm256_blend_epi32, _mm256_broadcastsi128_si256, _mm256_castsi256_pd, _mm256_cmpgt_epi16,
    _mm256_cmpgt_epi32, _mm256_cvtepu8_epi16, _mm256_cvtepu8_epi32, _mm256_cvtepu16_epi32,
    _mm256_extract_epi64, _mm256_max_epi16, _mm256_min_epi16, _mm256_movemask_pd,
    _mm256_mullo_epi16, _mm256_or_si256, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_set1_epi64x,
    _mm256_setr_epi16, _mm256_setr_epi64x, _mm256_setzero_si256, _mm256_shuffle_epi8,
    _mm256_slli_epi16, _mm256_slli_epi64, _mm256_sllv_epi32, _mm256_srai_epi16, _mm256_srl_epi16,
    _mm256_srli_epi16, _mm256_srli_epi32, _mm256_srli_epi64, _mm256_srlv_epi64, _mm256_sub_epi16,
    _mm256_sub_epi32, _mm256_sub_epi64, _mm256_xor_si256,
};

use super::super::token::RawBits;
use super::{Stream, decode_parts};
use crate::frame::difference::Directory;
use crate::frame::difference::block::SHIFT_MASK;
use crate::frame::difference::context::{BY_MANTISSA, ContextMap, ExponentTable, SAME};
use crate::frame::difference::float_format::{Float, Word};
use crate::frame::difference::token::DIRECT;

/// Number of 16-bit elements in a vector.
const HALVES: usize = 16;
/// Number of 32-bit elements in a vector.
const SINGLES: usize = 8;
/// Decodes blocks like the scalar code.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn decode<F: Float>(directory: &Directory, streams: &mut [Stream<F::Word>]) {
    let fill = |code, predicted: &[u8], choices: &mut [u16]| match size_of::<F::Word>() {
        2 => fill::<F>(&directory.choices, code, predicted, choices),
        _ => directory.choices.fill::<F>(code, predicted, choices),
    };
    decode_parts::<F>(directory, streams, fill, |stream| {
        if size_of::<F::Word>() == 2 {
            return apply_to_halves(directory, stream);
        }
        join_singles(directory, stream);
        stream.apply::<F>(directory);
    });
}

/// Combines the symbols of 16-bit elements with their raw bits into values, and writes
/// the elements. Frames of 16-bit elements have no table of mean changes.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn apply_to_halves<W: Word>(directory: &Directory, stream: &mut Stream<W>) {
    let len = stream.len;
    let mut raw = stream.raw;
    let (symbols, symbols_rest) = stream.symbols[..len].as_chunks::<HALVES>();
    let (choices, choices_rest) = stream.choices[..len].as_chunks::<HALVES>();
    let values = &mut stream.values[..HALVES];
    let predicted = stream.block.predicted[..2 * len].as_chunks::<{ 2 * HALVES }>();
    let (predicted, predicted_rest) = predicted;
    let out = stream.block.out[..2 * len].as_chunks_mut::<{ 2 * HALVES }>();
    let (out, out_rest) = out;
    let coded = symbols.iter().zip(choices);
    for ((symbols, choices), (predicted, out)) in coded.zip(predicted.iter().zip(out)) {
        match values_of_halves(&mut raw, symbols, choices) {
            Some(joined) => *out = applied_to_halves(predicted, joined),
            None => {
                raw = read_by_batches(raw, symbols, choices, directory, values);
                W::apply(predicted, values, out);
            }
        }
    }
    let values = &mut values[..symbols_rest.len()];
    raw.read(symbols_rest, choices_rest, &directory.joins, values);
    W::apply(predicted_rest, values, out_rest);
    stream.raw = raw;
}

/// Returns the elements whose differences from the predicted ones have these
/// folded values.
#[inline]
#[target_feature(enable = "avx2")]
fn applied_to_halves(predicted: &[u8; 2 * HALVES], values: __m256i) -> [u8; 2 * HALVES] {
    let predicted = bytes(predicted);
    let odd = _mm256_and_si256(values, _mm256_set1_epi16(1));
    let odd = _mm256_sub_epi16(_mm256_setzero_si256(), odd);
    let steps = _mm256_xor_si256(_mm256_srli_epi16::<1>(values), odd);
    let negative = _mm256_srai_epi16::<15>(predicted);
    let steps = _mm256_sub_epi16(_mm256_xor_si256(steps, negative), negative);
    let order = _mm256_xor_si256(predicted, _mm256_srli_epi16::<1>(negative));
    let order = _mm256_add_epi16(order, steps);
    let negative = _mm256_srai_epi16::<15>(order);
    bytes_of(_mm256_xor_si256(order, _mm256_srli_epi16::<1>(negative)))
}

/// Combines the symbols of 32-bit elements with their raw bits.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn join_singles<W: Word>(directory: &Directory, stream: &mut Stream<W>) {
    let len = stream.len;
    let mut raw = stream.raw;
    let (symbols, symbols_rest) = stream.symbols[..len].as_chunks::<SINGLES>();
    let (choices, choices_rest) = stream.choices[..len].as_chunks::<SINGLES>();
    let (values, values_rest) = stream.values[..len].as_chunks_mut::<SINGLES>();
    for ((symbols, choices), values) in symbols.iter().zip(choices).zip(values) {
        match values_of_singles(&mut raw, symbols, choices) {
            Some(joined) => *values = singles_of(joined).map(W::truncate),
            None => raw = read_by_batches(raw, symbols, choices, directory, values),
        }
    }
    raw.read(symbols_rest, choices_rest, &directory.joins, values_rest);
    stream.raw = raw;
}

/// Combines symbols with raw bits that do not fit into windows ([`WINDOW_BITS`]) or are
/// close to the end of the block.
#[cold]
#[inline(never)]
fn read_by_batches<'a, W: Word>(
    mut raw: RawBits<'a>,
    symbols: &[u8],
    choices: &[u16],
    directory: &Directory,
    values: &mut [W],
) -> RawBits<'a> {
    raw.read(symbols, choices, &directory.joins, values);
    raw
}

/// Writes the choices for elements of one group, like [`ContextMap::fill`].
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn fill<F: Float>(map: &ContextMap, code: u8, predicted: &[u8], choices: &mut [u16]) {
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

/// The minimum number of bits in a window. A window is a word of 64 raw bits that is
/// shifted to begin at any bit of its first byte.
const WINDOW_BITS: i64 = 57;
/// The number of bytes that contain four windows. The last window begins at most 7 + 3 *
/// 57 bits after the start, which is within 32 bytes, a power of two; 8 bytes are the
/// length of a window.
const WINDOWS_BYTES: usize = 32 + 8;

/// Returns the values of 16-bit elements, or `None` if their raw bits do not
/// fit into windows or are close to the end of the block.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn values_of_halves(
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
fn values_of_singles(
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

/// Looks up a low and a high byte for the low byte of each 16-bit number, which
/// must be below 16 or have its top bit set. In the latter case the result is
/// 0. The high bytes of the numbers are ignored.
#[inline]
#[target_feature(enable = "avx2")]
fn look_up(low: __m256i, high: __m256i, numbers: __m256i) -> __m256i {
    let for_low = _mm256_or_si256(numbers, _mm256_set1_epi16(i16::MIN));
    let for_high = _mm256_or_si256(_mm256_slli_epi16::<8>(numbers), _mm256_set1_epi16(0x80));
    _mm256_or_si256(
        _mm256_shuffle_epi8(low, for_low),
        _mm256_shuffle_epi8(high, for_high),
    )
}

/// Loads a table of 16 bytes into both halves of a vector.
#[inline]
#[target_feature(enable = "avx2")]
fn twice(table: &[u8; 16]) -> __m256i {
    _mm256_broadcastsi128_si256(sixteen(table))
}

/// Loads 16 bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn sixteen(bytes: &[u8; 16]) -> __m128i {
    let (words, _) = bytes.as_chunks::<8>();
    _mm_set_epi64x(i64::from_le_bytes(words[1]), i64::from_le_bytes(words[0]))
}

/// Loads 32 bytes into a vector.
#[inline]
#[target_feature(enable = "avx2")]
fn bytes(bytes: &[u8; 32]) -> __m256i {
    let (words, _) = bytes.as_chunks::<8>();
    let word = |number: usize| i64::from_le_bytes(words[number]);
    _mm256_setr_epi64x(word(0), word(1), word(2), word(3))
}

/// Loads 16 numbers into 16-bit lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn words(numbers: &[u16; 16]) -> __m256i {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = numbers.map(u16::cast_signed);
    _mm256_setr_epi16(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
}

/// Returns the 64-bit lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn quarters_of(vector: __m256i) -> [u64; 4] {
    [
        _mm256_extract_epi64::<0>(vector),
        _mm256_extract_epi64::<1>(vector),
        _mm256_extract_epi64::<2>(vector),
        _mm256_extract_epi64::<3>(vector),
    ]
    .map(i64::cast_unsigned)
}

/// Returns the bytes of a vector, the lowest lane first.
#[inline]
#[target_feature(enable = "avx2")]
fn bytes_of(vector: __m256i) -> [u8; 32] {
    let mut out = [0; 32];
    let (words, _) = out.as_chunks_mut::<8>();
    for (out, word) in words.iter_mut().zip(quarters_of(vector)) {
        *out = word.to_le_bytes();
    }
    out
}

/// Returns the 16-bit lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn words_of(vector: __m256i) -> [u16; 16] {
    let bytes = bytes_of(vector);
    core::array::from_fn(|i| u16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]))
}

/// Returns the 32-bit lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn singles_of(vector: __m256i) -> [u64; 8] {
    let bytes = bytes_of(vector);
    core::array::from_fn(|i| {
        let (words, _) = bytes.as_chunks::<4>();
        u32::from_le_bytes(words[i]).into()
    })
}
