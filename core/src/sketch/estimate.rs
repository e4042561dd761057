//! Estimates the size of a checkpoint once packed (docs/formats/sketch.md 3).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::frame_size::{ContextTables, Differences, ONE, coded_bits, words};
use super::{Sketch, SketchedTensor};

/// The bytes that a tensor takes in addition to its planes: heads, code tables,
/// digests, and its entries in the index and the header.
const TENSOR_BYTES: u64 = 180;
/// The size of a frame in percent of the entropy of the differing bits, which
/// whole-bit codes and tables exceed. Measured with `target/debug/zstn pack
/// TUNED --base auto --family DIR` on a published fine-tune and three synthetic
/// ones of all-MiniLM-L6-v2, where it is 102 to 112.
const CODED_PERCENT: u64 = 107;
/// The bytes of a tensor that equals the base's tensor.
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
    /// has no tensor of the same name, dtype and length, or because the
    /// difference would be larger.
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

    /// Estimates the size of a delta against `base`. With `extended`, the
    /// writer is assumed to use extended frames, which code differences of
    /// numbers instead of differing bits.
    #[must_use]
    pub fn estimate_delta(&self, base: &Self, extended: bool) -> SizeEstimate {
        let pairs: Vec<_> = self
            .tensors
            .iter()
            .map(|tensor| {
                let base = base.find(&tensor.name);
                let base =
                    base.filter(|b| (b.dtype, b.len_bytes) == (tensor.dtype, tensor.len_bytes));
                let pair = base.map(|base| Pair::new(tensor, base, extended));
                (tensor, pair)
            })
            .collect();
        let differences = pairs.iter().filter_map(|(_, pair)| pair.as_ref());
        let tables = ContextTables::count(differences.filter_map(|pair| pair.differences.as_ref()));
        let mut estimate = SizeEstimate::default();
        for (tensor, pair) in &pairs {
            if pair.as_ref().is_some_and(|pair| pair.is_equal) {
                estimate.add(COPY_BYTES);
                estimate.equal_tensors += 1;
                continue;
            }
            let plain = plain_bytes(tensor);
            let delta = pair.as_ref().map(|pair| pair.delta_bytes(tensor, &tables));
            let len = delta.unwrap_or(plain).min(plain);
            estimate.add(len.saturating_add(TENSOR_BYTES));
            match delta.is_some_and(|delta| delta < plain) {
                true => estimate.differing_tensors += 1,
                false => estimate.whole_tensors += 1,
            }
        }
        estimate
    }
}

/// The comparison of a tensor with the base's tensor.
struct Pair {
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
        let elements = tensor.len_bytes / super::element_bytes(dtype) as u64;
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
