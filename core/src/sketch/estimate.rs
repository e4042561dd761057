//! Estimates the size of a packed checkpoint from its sketch, without a base or
//! as a delta (docs/formats/sketch.md 3).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::frame_size::{ContextTables, Differences, ONE, coded_bits, words};
use super::{Sketch, SketchedTensor, element_bytes};
use crate::container::model_delta::BaseRange;
use crate::container::model_delta::pairing::{OfBase, OfTarget, Pairing};
use crate::dtype::Dtype;
use crate::frame::Edition;

/// The number of bytes that a tensor takes in a packed file in addition to its
/// planes: heads, code tables, digests, and its entries in the index and the
/// header.
const TENSOR_BYTES: u64 = 180;
/// The size of a frame in percent of the entropy of the differing bits. It
/// exceeds 100 because codes have whole numbers of bits and the frame contains
/// their tables. It was measured with `target/debug/zstn pack TUNED --base auto
/// --family DIR` on a published fine-tune and three synthetic ones of
/// all-MiniLM-L6-v2, where it is 102 to 112.
const CODED_PERCENT: u64 = 107;
/// The number of bytes that a tensor takes in a delta if it equals the base's
/// tensor.
const COPY_BYTES: u64 = 60;

/// The estimated size of a packed checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SizeEstimate {
    /// The estimated size of the packed file in bytes.
    pub packed_bytes: u64,
    /// The number of tensors that equal the base's tensor: their digests match
    /// or, without digests, their sampled elements do.
    pub equal_tensors: usize,
    /// The number of tensors that are stored as differences.
    pub differing_tensors: usize,
    /// The number of tensors that are stored as plain frames, because the base
    /// has no bytes that they can be compared with, or because the difference
    /// would be larger.
    pub whole_tensors: usize,
}

impl SizeEstimate {
    /// Adds to the size. The sum saturates because a forged sketch can describe
    /// more bytes than any file holds.
    fn add(&mut self, len_bytes: u64) {
        self.packed_bytes = self.packed_bytes.saturating_add(len_bytes);
    }
}

impl Sketch {
    /// Estimates the size of a container without a base.
    #[must_use]
    pub fn estimate_plain(&self) -> SizeEstimate {
        let mut seen = BTreeSet::new();
        let mut estimate = SizeEstimate::default();
        for tensor in &self.tensors {
            // Equal tensors are stored once.
            let content = (
                tensor.dtype,
                tensor.len_bytes,
                tensor.digest,
                &tensor.samples,
            );
            let is_first = tensor.len_bytes == 0 || seen.insert(content);
            let len = if is_first { plain_bytes(tensor) } else { 0 };
            estimate.add(len.saturating_add(TENSOR_BYTES));
            estimate.whole_tensors += 1;
        }
        estimate
    }

    /// Estimates the size of a delta against `base`. From [`Edition::Extended`] on,
    /// the writer is assumed to use extension frames, which code differences of
    /// numbers instead of differing bits. With [`Edition::Paired`], tensors are also
    /// compared with renamed ones, with ones that have another number of rows, and
    /// with rows of fused ones. Where the samples of such a pair lie at different
    /// places, the tensor is estimated to save as much as those of its dtype that
    /// can be compared.
    #[must_use]
    pub fn estimate_delta(&self, base: &Self, edition: Edition) -> SizeEstimate {
        let found = self.counterparts(base, edition >= Edition::Paired);
        self.estimate(&self.compared(found, edition))
    }

    /// Estimates the size of a delta from what each of its tensors is compared with.
    pub(super) fn estimate(&self, matches: &[Match]) -> SizeEstimate {
        let tables = matches.iter().filter_map(|found| match found {
            Match::Tensor(pair, _) => pair.differences.as_ref(),
            _ => None,
        });
        let tables = ContextTables::count(tables);
        let sizes = self.tensors.iter().zip(matches);
        let sizes: Vec<Size> = sizes
            .map(|(tensor, found)| Size::new(tensor, found, &tables))
            .collect();
        // The sizes without and with the base of all tensors of a dtype that can be
        // compared.
        let mut compared: BTreeMap<Dtype, (u128, u128)> = BTreeMap::new();
        for (tensor, size) in self.tensors.iter().zip(&sizes) {
            if let Some(delta) = size.delta {
                let (plain_sum, delta_sum) = compared.entry(tensor.dtype).or_default();
                *plain_sum += u128::from(size.plain);
                *delta_sum += u128::from(delta.min(size.plain));
            }
        }
        let mut estimate = SizeEstimate::default();
        for ((tensor, found), size) in self.tensors.iter().zip(matches).zip(&sizes) {
            let more = match found {
                Match::Tensor(_, Place::Other) | Match::Rows(_) => BaseRange::ENTRY_BYTES,
                _ => 0,
            };
            if let Match::Tensor(pair, _) = found
                && pair.is_equal
            {
                estimate.add(COPY_BYTES + more);
                estimate.equal_tensors += 1;
                continue;
            }
            let delta = match found {
                Match::Rows(shared) => {
                    let sums = compared.get(&tensor.dtype).filter(|(plain, _)| *plain > 0);
                    sums.map(|sums| with_shared_rows(tensor, size.plain, *shared, *sums))
                }
                _ => size.delta,
            };
            let delta = delta.filter(|&delta| delta < size.plain);
            let len = delta.map_or(size.plain, |delta| delta.saturating_add(more));
            estimate.add(len.saturating_add(TENSOR_BYTES));
            match delta {
                Some(_) => estimate.differing_tensors += 1,
                None => estimate.whole_tensors += 1,
            }
        }
        estimate
    }

    /// Compares each tensor with the one of the base that was `found` for it.
    pub(super) fn compared(&self, found: Vec<Found>, edition: Edition) -> Vec<Match> {
        let is_extended = edition >= Edition::Extended;
        let found = self.tensors.iter().zip(found);
        let matched = found.map(|(tensor, found)| match found {
            None => Match::None,
            Some((of_base, place, _)) if of_base.len_bytes == tensor.len_bytes => {
                Match::Tensor(Pair::new(tensor, of_base, is_extended), place)
            }
            Some((_, _, shared_bytes)) => Match::Rows(shared_bytes),
        });
        matched.collect()
    }

    /// Finds the tensor of `base` with which each tensor is compared, and the number of
    /// bytes that both have in common: the one of the same name, dtype and length. If
    /// `is_paired`, a tensor without one is compared with a renamed tensor, or with one of
    /// another length.
    pub(super) fn counterparts<'b>(&self, base: &'b Self, is_paired: bool) -> Vec<Found<'b>> {
        let same_name = self.tensors.iter().map(|tensor| {
            let of_base = base.find(&tensor.name)?;
            let is_same = (of_base.dtype, of_base.len_bytes) == (tensor.dtype, tensor.len_bytes);
            is_same.then_some((of_base, Place::Same, tensor.len_bytes))
        });
        let same_name: Vec<_> = same_name.collect();
        let is_paired = is_paired && same_name.iter().any(Option::is_none);
        let pairing = is_paired.then(|| {
            Pairing::new(
                self.tensors.iter().map(of_target),
                base.tensors.iter().map(|tensor| OfBase {
                    name: &tensor.name,
                    dtype: Some(tensor.dtype.name()),
                    len_bytes: tensor.len_bytes,
                }),
            )
        });
        let found = self.tensors.iter().zip(same_name);
        let found = found.map(|(tensor, same_name)| {
            same_name.or_else(|| {
                let (number, span) = pairing.as_ref()?.find(&of_target(tensor))?;
                Some((&base.tensors[number], Place::Other, span.end - span.start))
            })
        });
        found.collect()
    }
}

fn of_target(tensor: &SketchedTensor) -> OfTarget<'_> {
    OfTarget {
        name: &tensor.name,
        dtype: tensor.dtype,
        shape: &tensor.shape,
        len_bytes: tensor.len_bytes,
    }
}

/// A tensor of the base, and the number of bytes that it has in common with a tensor.
pub(super) type Found<'b> = Option<(&'b SketchedTensor, Place, u64)>;

/// What a tensor is compared with.
pub(super) enum Match {
    /// Nothing.
    None,
    /// A tensor of the same dtype and length.
    Tensor(Pair, Place),
    /// A tensor of another length, whose samples lie elsewhere. This is the number of
    /// bytes that both have in common.
    Rows(u64),
}

/// The tensor of the base that a tensor is compared with.
pub(super) enum Place {
    /// The one of the same name.
    Same,
    /// A renamed one.
    Other,
}

/// The estimated sizes of a tensor in bytes.
struct Size {
    plain: u64,
    /// `None` if its samples cannot be compared with the base's.
    delta: Option<u64>,
}

impl Size {
    fn new(tensor: &SketchedTensor, found: &Match, tables: &ContextTables) -> Self {
        let delta = match found {
            Match::Tensor(pair, _) if pair.is_equal => Some(0),
            Match::Tensor(pair, _) => Some(pair.delta_bytes(tensor, tables)),
            _ => None,
        };
        Self {
            plain: plain_bytes(tensor),
            delta,
        }
    }
}

/// Estimates the size of a tensor that takes `plain` bytes without a base and has
/// `shared` bytes in common with the base. They save as much as the tensors that
/// take `sums` bytes without a base and with it.
fn with_shared_rows(tensor: &SketchedTensor, plain: u64, shared: u64, sums: (u128, u128)) -> u64 {
    let (plain_sum, delta_sum) = sums;
    let len = u128::from(tensor.len_bytes.max(1));
    let shared = u128::from(plain) * u128::from(shared.min(tensor.len_bytes)) / len;
    // Sums of sizes below 2^64 are scaled down to numbers below 2^64, so that the
    // product fits.
    let scale = plain_sum
        .checked_ilog2()
        .unwrap_or_default()
        .saturating_sub(63);
    let (plain_sum, delta_sum) = (plain_sum >> scale, delta_sum >> scale);
    let coded = shared * delta_sum / plain_sum.max(1);
    let total = u128::from(plain) - shared + coded.min(shared);
    u64::try_from(total).unwrap_or(u64::MAX)
}

/// The comparison of a tensor with the base's tensor.
pub(super) struct Pair {
    is_equal: bool,
    xor: Vec<u64>,
    differences: Option<Differences>,
}

impl Pair {
    fn new(tensor: &SketchedTensor, base: &SketchedTensor, extended: bool) -> Self {
        let dtype = tensor.dtype;
        let [own, other] = [tensor, base].map(|tensor| words(dtype, &tensor.samples));
        let is_equal = match (tensor.digest, base.digest) {
            (Some(own), Some(other)) => own == other,
            _ => own == other,
        };
        let elements = tensor.len_bytes / element_bytes(dtype) as u64;
        let differences = extended && !is_equal;
        let differences = differences.then(|| Differences::new(dtype, &own, &other, elements));
        Self {
            is_equal,
            xor: own
                .iter()
                .zip(&other)
                .map(|(own, other)| own ^ other)
                .collect(),
            differences: differences.flatten(),
        }
    }

    fn delta_bytes(&self, tensor: &SketchedTensor, tables: &ContextTables) -> u64 {
        let xor = coded_bits(tensor.dtype, &self.xor) / 100 * CODED_PERCENT;
        let difference = self.differences.as_ref().map(|found| tables.bits(found));
        bytes_of(tensor, difference.map_or(xor, |bits| bits.min(xor)))
    }
}

fn plain_bytes(tensor: &SketchedTensor) -> u64 {
    let words = words(tensor.dtype, &tensor.samples);
    bytes_of(tensor, coded_bits(tensor.dtype, &words))
}

/// Extrapolates the size of a whole tensor in bytes from the `bits` that its
/// samples take.
fn bytes_of(tensor: &SketchedTensor, bits: u64) -> u64 {
    let sampled = tensor.samples.len() as u128;
    let bytes = u128::from(bits) * u128::from(tensor.len_bytes);
    let bytes = bytes / (u128::from(8 * ONE) * sampled.max(1));
    u64::try_from(bytes)
        .unwrap_or(u64::MAX)
        .min(tensor.len_bytes)
}
