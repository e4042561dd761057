//! Decodes parts of blocks with WebAssembly vectors of eight 16-bit elements.
//! Elements of 32 bits are decoded one by one.

use core::arch::wasm32::{
    i8x16_shuffle, i8x16_splat, i8x16_sub, i8x16_swizzle, i16x8_add, i16x8_gt, i16x8_mul,
    i16x8_neg, i16x8_shl, i16x8_shr, i16x8_splat, i16x8_sub, u8x16_min, u8x16_narrow_i16x8,
    u8x16_splat, u16x8, u16x8_extend_low_u8x16, u16x8_extract_lane, u16x8_shr, u16x8_splat, u64x2,
    u64x2_extract_lane, v128, v128_and, v128_any_true, v128_or, v128_xor,
};

use super::super::token::RawBits;
use super::{Stream, decode_parts};
use crate::frame::difference::Directory;
use crate::frame::difference::block::SHIFT_MASK;
use crate::frame::difference::context::{BY_MANTISSA, ContextMap, ExponentTable, SAME};
use crate::frame::difference::float_format::{Float, Word};
use crate::frame::difference::token::DIRECT;

/// Number of elements in a vector.
const LANES: usize = 8;

/// Decodes blocks like the scalar code.
pub(super) fn decode<F: Float>(directory: &Directory, streams: &mut [Stream<F::Word>]) {
    let fill = |code, predicted: &[u8], choices: &mut [u16]| match size_of::<F::Word>() {
        2 => fill::<F>(&directory.choices, code, predicted, choices),
        _ => directory.choices.fill::<F>(code, predicted, choices),
    };
    decode_parts::<F>(directory, streams, fill, |stream| {
        if size_of::<F::Word>() == 2 {
            return join_and_apply(directory, stream);
        }
        stream.join(directory);
        stream.apply::<F>(directory);
    });
}

/// Combines the symbols of 16-bit elements with their raw bits into values, and writes
/// the elements. Frames of 16-bit elements have no table of mean changes.
#[inline(always)]
fn join_and_apply<W: Word>(directory: &Directory, stream: &mut Stream<W>) {
    let len = stream.len;
    let mut raw = stream.raw;
    let (symbols, symbols_rest) = stream.symbols[..len].as_chunks::<LANES>();
    let (choices, choices_rest) = stream.choices[..len].as_chunks::<LANES>();
    let values = &mut stream.values[..LANES];
    let predicted = stream.block.predicted[..2 * len].as_chunks::<{ 2 * LANES }>();
    let (predicted, predicted_rest) = predicted;
    let out = stream.block.out[..2 * len].as_chunks_mut::<{ 2 * LANES }>();
    let (out, out_rest) = out;
    let coded = symbols.iter().zip(choices);
    for ((symbols, choices), (predicted, out)) in coded.zip(predicted.iter().zip(out)) {
        match values_of(&mut raw, symbols, choices) {
            Some(joined) => *out = applied(predicted, joined),
            None => {
                raw = read_by_batches(raw, symbols, choices, directory, values);
                W::apply(predicted, values, out);
            }
        }
    }
    let values = &mut values[..symbols_rest.len()];
    raw = read_by_batches(raw, symbols_rest, choices_rest, directory, values);
    W::apply(predicted_rest, values, out_rest);
    stream.raw = raw;
}

/// Returns the elements whose differences from the predicted ones have these
/// folded values.
#[inline(always)]
fn applied(predicted: &[u8; 2 * LANES], values: v128) -> [u8; 2 * LANES] {
    let predicted = bytes(predicted);
    let odd = i16x8_neg(v128_and(values, u16x8_splat(1)));
    let steps = v128_xor(u16x8_shr(values, 1), odd);
    let negative = i16x8_shr(predicted, 15);
    let steps = i16x8_sub(v128_xor(steps, negative), negative);
    let order = v128_xor(predicted, u16x8_shr(negative, 1));
    let order = i16x8_add(order, steps);
    let negative = i16x8_shr(order, 15);
    bytes_of(v128_xor(order, u16x8_shr(negative, 1)))
}

/// Combines symbols with raw bits that do not fit into a window or are close to
/// the end of the block.
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

/// Number of elements whose exponents fill a vector.
const GROUP: usize = 2 * LANES;

/// Writes the choices for elements of one group, like [`ContextMap::fill`].
#[inline(always)]
fn fill<F: Float>(map: &ContextMap, code: u8, predicted: &[u8], choices: &mut [u16]) {
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
fn values_of(raw: &mut RawBits, symbols: &[u8; LANES], choices: &[u16; LANES]) -> Option<v128> {
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
    // Factors that shift numbers left until seven bits are below their first raw bit.
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

/// Loads 16 bytes into a vector.
#[inline(always)]
fn bytes(bytes: &[u8; 16]) -> v128 {
    let (words, _) = bytes.as_chunks::<8>();
    u64x2(u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]))
}

/// Loads eight numbers into 16-bit lanes.
#[inline(always)]
fn words(&[a, b, c, d, e, f, g, h]: &[u16; 8]) -> v128 {
    u16x8(a, b, c, d, e, f, g, h)
}

/// Returns the bytes of a vector, the lowest lane first.
#[inline(always)]
fn bytes_of(vector: v128) -> [u8; 16] {
    let mut out = [0; 16];
    let (words, _) = out.as_chunks_mut::<8>();
    words[0] = u64x2_extract_lane::<0>(vector).to_le_bytes();
    words[1] = u64x2_extract_lane::<1>(vector).to_le_bytes();
    out
}

/// Returns the 16-bit lanes.
#[inline(always)]
fn words_of(vector: v128) -> [u16; 8] {
    let bytes = bytes_of(vector);
    core::array::from_fn(|i| u16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]))
}
