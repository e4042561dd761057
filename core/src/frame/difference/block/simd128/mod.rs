//! Decodes parts of blocks with WebAssembly vectors of eight 16-bit elements.
//! Elements of 32 bits are decoded one by one.

mod contexts;
mod lanes;
mod values;

use core::arch::wasm32::{
    i16x8_add, i16x8_neg, i16x8_shr, i16x8_sub, u16x8_shr, u16x8_splat, v128, v128_and, v128_xor,
};

use super::raw_bits::RawBits;
use super::{Stream, decode_parts};
use crate::frame::difference::Directory;
use crate::frame::difference::element::{Float, Word};
use contexts::fill;
use lanes::{bytes, bytes_of};
use values::values_of;

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

/// Combines the symbols of 16-bit elements with their raw bits and applies the
/// values. Frames of 16-bit elements have no means.
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
