//! Decodes parts of blocks with vectors of 32 bytes: 16 elements of 16 bits, or
//! 8 elements of 32 bits.

mod contexts;
mod lanes;
mod values;

use core::arch::x86_64::{
    __m256i, _mm256_add_epi16, _mm256_and_si256, _mm256_set1_epi16, _mm256_setzero_si256,
    _mm256_srai_epi16, _mm256_srli_epi16, _mm256_sub_epi16, _mm256_xor_si256,
};

use super::raw_bits::RawBits;
use super::{Stream, decode_parts};
use crate::frame::difference::Directory;
use crate::frame::difference::element::{Float, Word};
use contexts::fill;
use lanes::{bytes, bytes_of, singles_of};
use values::{values_of_halves, values_of_singles};

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

/// Combines the symbols of 16-bit elements with their raw bits and applies the
/// values. Frames of 16-bit elements have no means.
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

/// Combines symbols with raw bits that do not fit into windows or are close to
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
