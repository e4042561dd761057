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
/// survive tuning and conversions to other dtypes. Names do not matter.
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
    let coarse = run.iter().map(|word| match dtype {
        Dtype::F16 => single_exponent(*word >> 10),
        _ => word >> mantissa_bits(dtype).unwrap_or(0),
    });
    let mut sorted: Vec<u64> = coarse.clone().collect();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() < MIN_DISTINCT {
        return None;
    }
    let bytes: Vec<u8> = coarse.flat_map(u64::to_le_bytes).collect();
    let kind = match dtype {
        Dtype::Bf16 | Dtype::F16 | Dtype::F32 => "F32",
        _ => dtype.name(),
    };
    let digest = short_digest([kind.as_bytes(), &bytes]);
    digest.first_chunk().copied().map(u64::from_le_bytes)
}

/// Returns the sign and the exponent that a number with this sign and exponent of F16 has
/// in F32. Subnormal numbers count as zero.
fn single_exponent(of_half: u64) -> u64 {
    const BIAS: u64 = 127 - 15;
    let sign = of_half >> 5 << 8;
    sign | match of_half & 0x1f {
        0 => 0,
        0x1f => 0xff,
        exponent => exponent + BIAS,
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use half::{bf16, f16};

    use crate::dtype::Dtype;
    use crate::sketch::{Sketch, SketchedTensor, runs};

    fn sketch(dtype: Dtype, width: u64, element: impl Fn(f32) -> Vec<u8>) -> Sketch {
        const ELEMENTS: u64 = 200_000;
        let runs = runs(dtype, ELEMENTS * width).into_iter();
        let elements = runs.flat_map(|run| run.start / width..run.end / width);
        // Multiples of powers of two, which all three dtypes represent exactly.
        let value = |element: u64| {
            let hash = element.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let [.., low, high] = hash.to_le_bytes();
            let sign = if low & 1 == 0 { 1.0 } else { -1.0 };
            sign * f32::from(1 + high % 64) / f32::from(1_u8 << (low >> 1 & 7))
        };
        let samples = elements.flat_map(|number| element(value(number))).collect();
        let tensor = SketchedTensor::new("w".into(), dtype, vec![ELEMENTS], None, samples);
        Sketch::new(ELEMENTS * width, None, vec![tensor.unwrap()]).unwrap()
    }

    #[test]
    fn equal_weights_have_one_signature_in_every_dtype() {
        let single = sketch(Dtype::F32, 4, |value| value.to_le_bytes().to_vec());
        let brain = sketch(Dtype::Bf16, 2, |value| {
            bf16::from_f32(value).to_le_bytes().to_vec()
        });
        let half = sketch(Dtype::F16, 2, |value| {
            f16::from_f32(value).to_le_bytes().to_vec()
        });
        assert!(!single.signature().hashes().is_empty());
        assert_eq!(single.signature(), brain.signature());
        assert_eq!(single.signature(), half.signature());
    }
}
