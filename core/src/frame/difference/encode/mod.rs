//! Encoder of a frame (docs/formats/zxd1.md 12): chooses the scales of groups
//! and the coding of contexts, then encodes the blocks.
//!
//! All decisions are made with integers or with single operations on IEEE
//! doubles in a fixed order, so the bytes are the same on every platform and
//! with any number of threads.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::float_format::{Float, Word, for_float};
use super::head::{HeadFields, Means};
use super::low_rank::{self, LowRank};
use super::{Difference, short_digest};
use crate::TensorRef;
use crate::engine::{Engine, PackEngine};
use crate::entropy::bits::RawBitWriter;
use crate::entropy::interleaved::{
    EncodeTables, FRACTION_BITS, SLOT_BITS, encode as encode_rans, encode_side_stream,
};
use crate::float::FloatType;
use crate::frame::difference::block::SHIFT_MASK;
use crate::frame::difference::context::{BY_MANTISSA, ContextMap};
use crate::frame::difference::token::{extra_bits, symbol};
use crate::frame::rans_blocks::Block;
use crate::frame::select::EncodeOptions;
use context_model::{ContextModel, Counts};
use groups::Groups;

mod context_model;
mod groups;

pub(crate) use groups::row_elements;

/// Number of elements of a block.
pub(crate) const BLOCK_ELEMENTS: usize = 1 << 17;

/// Encodes `current` as its difference from `reference`. Returns `None` if its
/// dtype is not supported, if it is empty, or if the two lengths differ or are
/// not a whole number of elements.
pub fn encode<E: PackEngine>(
    engine: &E,
    current: TensorRef,
    reference: &[u8],
    _: EncodeOptions,
) -> Option<Vec<u8>> {
    let element = FloatType::from_dtype(current.dtype?)?;
    let bytes = current.bytes;
    if bytes.is_empty()
        || bytes.len() != reference.len()
        || !bytes.len().is_multiple_of(element.len_bytes())
    {
        return None;
    }
    let base = Base {
        bytes: reference,
        digest: short_digest(engine, reference),
    };
    let plain = with_prediction(engine, element, current, base, None);
    let low_rank = low_rank::fit(engine, current, reference)
        .and_then(|found| with_prediction(engine, element, current, base, Some(&found)));
    let frames = plain.into_iter().chain(low_rank);
    let frame = frames.min_by_key(Vec::len)?;
    // The frame is decoded again, because nothing else would reveal a mistake before the
    // original is discarded.
    let decoded = Difference::parse(&frame).and_then(|frame| frame.restore(engine, reference));
    decoded
        .is_ok_and(|decoded| decoded == bytes)
        .then_some(frame)
}

/// The tensor that another one is encoded against.
#[derive(Debug, Clone, Copy)]
struct Base<'a> {
    bytes: &'a [u8],
    digest: [u8; 16],
}

/// Encodes `current` as its difference from `base`, or from the prediction that
/// `low_rank` makes from `base`.
fn with_prediction<E: PackEngine>(
    engine: &E,
    element: FloatType,
    current: TensorRef,
    base: Base,
    low_rank: Option<&LowRank>,
) -> Option<Vec<u8>> {
    let elements = current.bytes.len() / element.len_bytes();
    let predicted = low_rank.map(|low_rank| predict(engine, low_rank, element, base.bytes));
    let tensors = Tensors {
        element,
        predicted: predicted.as_deref().unwrap_or(base.bytes),
        current: current.bytes,
    };
    let rows = row_elements(current.shape, elements);
    let coding = choose(engine, tensors, rows);
    let states = coding.model.states(elements.div_ceil(BLOCK_ELEMENTS));
    let coded = encode_blocks(engine, tensors, &coding, states);
    let blocks: Vec<_> = coded.iter().map(|(block, _)| *block).collect();
    let fields = HeadFields {
        element,
        states,
        base_digest: base.digest,
        elements: elements as u64,
        group_elements: coding.groups.elements as u64,
        block_elements: u32::try_from(BLOCK_ELEMENTS).ok()?,
        first_context: coding.model.first_context,
        codes: &coding.codes,
        means: coding.means.as_deref(),
        low_rank,
        codings: &coding.model.codings,
        tables: &coding.model.tables,
    };
    let mut out = fields.write(&blocks)?;
    out.reserve_exact(coded.iter().map(|(_, bytes)| bytes.len()).sum());
    for (_, bytes) in &coded {
        out.extend_from_slice(bytes);
    }
    Some(out)
}

/// Returns the elements that `low_rank` predicts from `reference`.
fn predict<E: PackEngine>(
    engine: &E,
    low_rank: &LowRank,
    element: FloatType,
    reference: &[u8],
) -> Vec<u8> {
    let mut out = vec![0; reference.len()];
    let block_bytes = BLOCK_ELEMENTS * element.len_bytes();
    let blocks = reference
        .chunks(block_bytes)
        .zip(out.chunks_mut(block_bytes));
    let blocks = blocks.enumerate().collect();
    engine.map(blocks, |(number, (base, out))| {
        let first = number * BLOCK_ELEMENTS;
        let elements = first..first + out.len() / element.len_bytes();
        low_rank.predict(base, elements, out);
    });
    out
}

/// A tensor and its prediction.
#[derive(Debug, Clone, Copy)]
struct Tensors<'a> {
    element: FloatType,
    predicted: &'a [u8],
    current: &'a [u8],
}

/// The parameters for encoding the blocks.
#[derive(Debug)]
struct Coding {
    groups: Groups,
    /// The side stream of the groups' codes.
    codes: Vec<u8>,
    means: Option<Means>,
    model: ContextModel,
}

/// Writes the folded values of the differences between elements. If `means` is
/// given, the mean of the element's mantissa is subtracted from each difference.
fn write_values<F: Float>(
    current: &[u8],
    predicted: &[u8],
    means: Option<&Means>,
    out: &mut [F::Word],
) {
    let words = F::Word::words(predicted).zip(F::Word::words(current));
    for ((predicted, current), out) in words.zip(out.iter_mut()) {
        *out = F::Word::difference(predicted, current);
    }
    if let Some(means) = means {
        for (predicted, out) in F::Word::words(predicted).zip(out) {
            let mean = means[F::mantissa_top(predicted)];
            *out = out.add(mean.wrapping_neg());
        }
    }
}

/// Returns the cheapest of three codings: a scale for each row, one scale for
/// the tensor, or for each row either a scale or mean changes.
fn choose<E: PackEngine>(engine: &E, tensors: Tensors, row_elements: usize) -> Coding {
    let elements = tensors.current.len() / tensors.element.len_bytes();
    let rows = for_float!(tensors.element, F => Groups::new::<F, E>(engine, tensors, row_elements));
    let whole = rows.joined(elements);
    let by_mantissa = groups::find(engine, tensors, &rows);
    let candidates = [
        Some((None, rows)),
        whole.map(|groups| (None, groups)),
        by_mantissa.map(|(means, groups)| (Some(means), groups)),
    ];
    let mut best: Option<(u64, Coding)> = None;
    for (means, groups) in candidates.into_iter().flatten() {
        let counts = for_float!(tensors.element, F => {
            Counts::new::<F, E>(engine, tensors, &groups, means.as_ref())
        });
        let model = ContextModel::new(&counts);
        let codes = encode_side_stream(&groups.codes);
        let means_bytes = means.as_ref().map_or(0, |means| size_of_val(&**means));
        let stored_bytes = (codes.len() + means_bytes) as u64;
        let cost = model.cost + ((8 * stored_bytes) << FRACTION_BITS);
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            let coding = Coding {
                groups,
                codes,
                means,
                model,
            };
            best = Some((cost, coding));
        }
    }
    let (_, coding) = best.expect("there are always rows");
    coding
}

/// Encodes all blocks. Returns the bytes and the description of each. The field
/// `start` of the description is not set.
fn encode_blocks<E: Engine>(
    engine: &E,
    tensors: Tensors,
    coding: &Coding,
    states: usize,
) -> Vec<(Block, Vec<u8>)> {
    let elements = tensors.current.len() / tensors.element.len_bytes();
    let model = &coding.model;
    let map = ContextMap::new(|context| {
        // The choice for a context that does not occur is irrelevant.
        let number = context.wrapping_sub(model.first_context.into());
        let coding = model.codings.get(number).copied().unwrap_or_default();
        u16::from(coding.table) << SLOT_BITS | u16::from(coding.shift)
    });
    let tables = EncodeTables::new(&model.tables);
    let jobs: Vec<Range<usize>> = (0..elements)
        .step_by(BLOCK_ELEMENTS)
        .map(|start| start..elements.min(start + BLOCK_ELEMENTS))
        .collect();
    engine.map(jobs, |range| {
        for_float!(tensors.element, F => {
            let width = size_of::<<F as Float>::Word>();
            let bytes = range.start * width..range.end * width;
            let (current, predicted) = (&tensors.current[bytes.clone()], &tensors.predicted[bytes]);
            let mut choices = vec![0; range.len()];
            let mut values = vec![<F as Float>::Word::default(); range.len()];
            for (code, range) in coding.groups.within(range) {
                let bytes = range.start * width..range.end * width;
                let (current, predicted) = (&current[bytes.clone()], &predicted[bytes]);
                map.fill::<F>(code, predicted, &mut choices[range.clone()]);
                let means = coding.means.as_ref().filter(|_| code == BY_MANTISSA);
                write_values::<F>(current, predicted, means, &mut values[range]);
            }
            let (symbols, raw) = split(&values, &choices);
            let rans = encode_rans(&tables, &symbols, &choices, states);
            Block::join(rans, &raw)
        })
    })
}

/// Splits values into symbols and raw bits.
fn split<W: Word>(values: &[W], choices: &[u16]) -> (Vec<u8>, Vec<u8>) {
    let mut raw = RawBitWriter::with_capacity(size_of_val(values));
    let mut symbols = vec![0; values.len()];
    // Appending bits is sequential and takes longer than anything else, so the
    // bits of two short elements are appended together.
    let (pairs, _) = values.as_chunks::<2>();
    let pairs = if size_of::<W>() == 2 { pairs } else { &[] };
    let (choice_pairs, _) = choices.as_chunks::<2>();
    let (symbol_pairs, _) = symbols.as_chunks_mut::<2>();
    let coded = choice_pairs.iter().zip(symbol_pairs);
    for ([first, second], (choices, symbols)) in pairs.iter().zip(coded) {
        let (symbol, bits, len) = split_value(*first, choices[0]);
        let (next_symbol, next_bits, next_len) = split_value(*second, choices[1]);
        *symbols = [symbol, next_symbol];
        raw.put(bits | next_bits << len, len + next_len);
    }
    let done = 2 * pairs.len();
    let rest = values[done..].iter().zip(&choices[done..]);
    for ((value, choice), out) in rest.zip(&mut symbols[done..]) {
        let (symbol, bits, len) = split_value(*value, *choice);
        *out = symbol;
        raw.put(bits, len);
    }
    (symbols, raw.finish())
}

/// Returns the symbol of a value, its raw bits and their number. That number is
/// either below the number of significant bits of the value or equal to the
/// shift.
#[inline(always)]
fn split_value<W: Word>(value: W, choice: u16) -> (u8, u64, u32) {
    let value = value.to_u32();
    let shift = u32::from(choice & SHIFT_MASK);
    let symbol = symbol(value >> shift);
    let len = shift + extra_bits(symbol);
    (symbol, u64::from(value) & ((1 << len) - 1), len)
}
