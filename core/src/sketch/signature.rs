//! Signatures: a few hashes of a sketch, by which similar checkpoints are found
//! among many without a comparison of their sketches.

use alloc::vec::Vec;

use super::frame_size::{mantissa_bits, words};
use super::{RUN_ELEMENTS, Sketch};
use crate::bytes::index;
use crate::container::model_delta::short_digest;
use crate::dtype::Dtype;

/// The largest number of hashes in a signature.
pub const SIGNATURE_HASHES: usize = 64;

/// A run whose hashed bits have fewer distinct values, such as one of zeros, does not
/// identify a checkpoint.
const MIN_DISTINCT: usize = 3;

/// The smallest hashes of the sampled runs of a checkpoint. The share of hashes that two
/// signatures have in common estimates the share of runs that the checkpoints have in
/// common. The hash of a run of floats covers only signs and exponents, most of which
/// survive tuning. Names do not matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature(Vec<u64>);

impl Signature {
    /// Returns the hashes in ascending order, at most [`SIGNATURE_HASHES`].
    #[must_use]
    pub fn hashes(&self) -> &[u64] {
        &self.0
    }
}

impl Sketch {
    /// Returns the signature of the checkpoint.
    #[must_use]
    pub fn signature(&self) -> Signature {
        let mut hashes = Vec::new();
        for tensor in &self.tensors {
            let words = words(tensor.dtype, &tensor.samples);
            let runs = words.chunks(index(RUN_ELEMENTS));
            hashes.extend(runs.filter_map(|run| hash(tensor.dtype, run)));
            // Large sketches do not need all hashes at once.
            if hashes.len() >= 64 * SIGNATURE_HASHES {
                keep_smallest(&mut hashes);
            }
        }
        keep_smallest(&mut hashes);
        Signature(hashes)
    }
}

fn keep_smallest(hashes: &mut Vec<u64>) {
    hashes.sort_unstable();
    hashes.dedup();
    hashes.truncate(SIGNATURE_HASHES);
}

/// Returns the hash of a run, or `None` if too few of the hashed values are distinct.
fn hash(dtype: Dtype, run: &[u64]) -> Option<u64> {
    let coarse = run
        .iter()
        .map(|word| word >> mantissa_bits(dtype).unwrap_or(0));
    let mut sorted: Vec<u64> = coarse.clone().collect();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() < MIN_DISTINCT {
        return None;
    }
    let bytes: Vec<u8> = coarse.flat_map(u64::to_le_bytes).collect();
    let digest = short_digest([dtype.name().as_bytes(), &bytes]);
    digest.first_chunk().copied().map(u64::from_le_bytes)
}
