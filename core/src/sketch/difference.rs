//! The size of extended delta frames: they code differences of ordered integers
//! in contexts that follow from the exponent of the base's element
//! (docs/formats/sketch.md 3).

use alloc::vec;
use alloc::vec::Vec;

use super::bits::{self, ONE};
use super::planes;
use crate::dtype::Dtype;

const CONTEXTS: usize = 65;
/// The context of all elements in tensors without a change.
const UNCHANGED: usize = 64;
const LENGTHS: usize = 65;

/// The sampled differences of a tensor.
pub struct Differences {
    /// The context and the difference of each sampled element.
    elements: Vec<(usize, u64)>,
    /// The number of elements in the tensor for each sampled one.
    weight: u64,
}

impl Differences {
    /// Computes the differences between floats, or returns `None` for other
    /// dtypes, which have no extended frame. `elements` is the number of
    /// elements in the whole tensor.
    pub fn new(dtype: Dtype, current: &[u64], base: &[u64], elements: u64) -> Option<Self> {
        let mantissa = match dtype {
            Dtype::Bf16 | Dtype::F16 | Dtype::F32 => planes::mantissa_bits(dtype)?,
            _ => return None,
        };
        let sign = 1 << (dtype.bits() - 1);
        let exponent = |word: u64| (word & (sign - 1)) >> mantissa;
        let pairs = current.iter().zip(base);
        let found: Vec<(u64, u64)> = pairs
            .map(|(&current, &base)| (exponent(base), difference(current, base, sign)))
            .collect();
        let scale = scale(&found);
        let context = |exponent: u64| match scale {
            None => UNCHANGED,
            // 48 minus twice the base-2 logarithm of the mean change in units
            // in the last place at this exponent.
            Some(scale) => usize::try_from((2 * exponent + 48).saturating_sub(scale))
                .unwrap_or_default()
                .min(UNCHANGED - 1),
        };
        let elements_found = found.len().max(1) as u64;
        Some(Self {
            elements: found.iter().map(|&(e, d)| (context(e), d)).collect(),
            weight: (elements / elements_found).max(1),
        })
    }
}

/// Returns the distance from `base` to `current` among ordered floats, as a
/// zigzag number. The sign of the distance is relative to the base: steps
/// towards larger magnitudes are positive.
fn difference(current: u64, base: u64, sign: u64) -> u64 {
    let ordered = |word: u64| {
        let magnitude = (word & (sign - 1)).cast_signed();
        if word & sign == 0 {
            magnitude
        } else {
            -magnitude - 1
        }
    };
    let (current, base) = (ordered(current), ordered(base));
    let distance = if base < 0 {
        base - current
    } else {
        current - base
    };
    (distance << 1 ^ distance >> 63).cast_unsigned()
}

fn length(difference: u64) -> u32 {
    64 - difference.leading_zeros()
}

/// Returns twice the base-2 logarithm of the mean change, or `None` if nothing
/// has changed. The logarithm of a single change is the exponent of the base's
/// element plus the length in bits of the difference.
fn scale(found: &[(u64, u64)]) -> Option<u64> {
    const POINT: u64 = 40;
    let changes = found.iter().filter(|(_, difference)| *difference > 0);
    let changes = changes.map(|(exponent, difference)| exponent + u64::from(length(*difference)));
    let largest = changes.clone().max()?;
    let parts = changes.map(|change| 1u64 << POINT.saturating_sub(largest - change));
    let sum: u64 = parts.sum();
    let below = (POINT * ONE + bits::log2(found.len() as u64)).saturating_sub(bits::log2(sum));
    Some((2 * largest).saturating_sub(2 * below / ONE))
}

/// The number of differences of each length in each context, over a whole
/// checkpoint.
pub struct Tables {
    counts: Vec<[u64; LENGTHS]>,
    totals: [u64; CONTEXTS],
}

impl Tables {
    pub fn count<'a>(tensors: impl Iterator<Item = &'a Differences>) -> Self {
        let mut counts = vec![[0; LENGTHS]; CONTEXTS];
        let mut totals = [0; CONTEXTS];
        for tensor in tensors {
            for &(context, difference) in &tensor.elements {
                // The sum saturates because a forged sketch can describe more
                // elements than any file holds.
                for sum in [
                    &mut counts[context][length(difference) as usize],
                    &mut totals[context],
                ] {
                    *sum = u64::saturating_add(*sum, tensor.weight);
                }
            }
        }
        Self { counts, totals }
    }

    /// Returns the bits of all sampled elements, in the unit of [`bits`].
    pub fn bits(&self, tensor: &Differences) -> u64 {
        let bits = tensor.elements.iter().map(|&(context, difference)| {
            let length = length(difference);
            let count = self.counts[context][length as usize];
            bits::cost(count, self.totals[context]) + u64::from(length.saturating_sub(1)) * ONE
        });
        bits.sum()
    }
}
