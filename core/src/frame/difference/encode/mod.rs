//! Encoder of a frame (docs/formats/zxd1.md 12): chooses the scales of groups
//! and the coding of contexts, then encodes the blocks.
//!
//! All decisions are made with integers or with single operations on IEEE
//! doubles in a fixed order, so the bytes are the same on every platform and
//! with any number of threads.

mod blocks;
mod counts;
mod groups;
mod means;
mod model;

use alloc::vec;
use alloc::vec::Vec;

use super::element::{Float, Word as _, for_float};
use super::head::{HeadFields, Means};
use super::low_rank::{self, LowRank};
use super::{Difference, short_digest};
use crate::TensorRef;
use crate::engine::PackEngine;
use crate::entropy::interleaved::{FRACTION_BITS, encode_side_stream};
use crate::float::FloatType;
use crate::frame::select::EncodeOptions;
use counts::Counts;
use groups::Groups;
pub(crate) use groups::row_elements;
use model::Model;

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
    // Nothing else would reveal a mistake before the original is discarded.
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
    let coded = blocks::encode(engine, tensors, &coding, states);
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
    model: Model,
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
    let by_mantissa = means::find(engine, tensors, &rows);
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
        let model = Model::new(&counts);
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
