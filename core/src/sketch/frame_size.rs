//! Estimates the size of a tensor's frame from a sample of its elements
//! (docs/formats/sketch.md 3): the entropy of the planes of a plain frame, and
//! the entropy of the differences in an extended delta frame, which are coded
//! in contexts that follow from the exponent of the base's element.
//!
//! Entropies are fixed-point numbers, in which [`ONE`] is one bit. They decide
//! which base a checkpoint is packed against, and integers are the same on
//! every machine.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::element_bytes;
use crate::dtype::Dtype;

/// The largest number of bits in a plane.
const PLANE_BITS: u32 = 8;

/// Returns the elements as unsigned integers.
pub fn words(dtype: Dtype, samples: &[u8]) -> Vec<u64> {
    let elements = samples.chunks_exact(element_bytes(dtype));
    let word = |element: &[u8]| {
        let bytes = element.iter().rev();
        bytes.fold(0, |word, &byte| word << 8 | u64::from(byte))
    };
    elements.map(word).collect()
}

/// Returns the number of mantissa bits of a float whose fields are stored in
/// separate planes; `None` for other dtypes.
pub fn mantissa_bits(dtype: Dtype) -> Option<u32> {
    match dtype {
        Dtype::Bf16 => Some(7),
        Dtype::F16 => Some(10),
        Dtype::F32 => Some(23),
        Dtype::F64 => Some(52),
        _ => None,
    }
}

/// Returns the bits that `words` take together, in the unit of [`ONE`]. This is
/// the smallest of four encodings: byte planes, the fields of floats, a mask
/// with the nonzero words, and indices into a palette.
pub(crate) fn coded_bits(dtype: Dtype, words: &[u64]) -> u64 {
    let width = element_bits(dtype);
    let mut bits = planes_bits(words, 0..width);
    if let Some(mantissa) = mantissa_bits(dtype) {
        let exponents = value_bits(words, mantissa..width);
        bits = bits.min(exponents + planes_bits(words, 0..mantissa));
    }
    let nonzero: Vec<u64> = words.iter().copied().filter(|&word| word != 0).collect();
    let zeros = (words.len() - nonzero.len()) as u64;
    if zeros > nonzero.len() as u64 {
        // A mask, followed by the nonzero words.
        let mask = bits_of_counts([zeros, nonzero.len() as u64].into_iter());
        bits = bits.min(mask + planes_bits(&nonzero, 0..width));
    }
    let values = Values::count(words.iter().copied());
    if values.is_palette() {
        bits = bits.min(values.bits());
    }
    bits
}

/// Returns the number of bits in a sampled element.
fn element_bits(dtype: Dtype) -> u32 {
    match element_bytes(dtype) {
        8 => 64,
        4 => 32,
        2 => 16,
        _ => 8,
    }
}

/// Returns the bits of the planes that the bits `range` of every word are
/// divided into: bytes, counted from the highest bit down.
fn planes_bits(words: &[u64], range: Range<u32>) -> u64 {
    let (mut end, mut bits) = (range.end, 0);
    while end > range.start {
        let start = end.saturating_sub(PLANE_BITS).max(range.start);
        bits += value_bits(words, start..end);
        end = start;
    }
    bits
}

/// Returns the bits of one plane, which consists of the bits `range` of every
/// word.
fn value_bits(words: &[u64], range: Range<u32>) -> u64 {
    let width = range.end - range.start;
    let plane = |word: &u64| word >> range.start & (u64::MAX >> (64 - width));
    let values = Values::count(words.iter().map(plane));
    let most = words.len() as u64 * u64::from(width) * ONE;
    match values.are_well_known() {
        true => values.bits().min(most),
        false => length_bits(words.iter().map(plane)).min(most),
    }
}

/// Returns the bits of values that are too diverse for the sample to show their
/// distribution. Their binary lengths are coded, and each bit after the first
/// one is coded by itself.
fn length_bits(values: impl Iterator<Item = u64>) -> u64 {
    // The number of values of each length, and for each bit of these values, the number
    // of values that set it.
    let mut lengths = [0u64; 65];
    let mut ones = [[0u64; 64]; 65];
    for value in values {
        let length = 64 - value.leading_zeros();
        let length = length as usize;
        lengths[length] += 1;
        for (bit, ones) in ones[length].iter_mut().enumerate().take(length) {
            *ones += value >> bit & 1;
        }
    }
    let after_first = |length: usize| -> u64 {
        let ones = ones[length].iter().take(length.saturating_sub(1));
        ones.map(|&ones| bits_of_counts([ones, lengths[length] - ones].into_iter()))
            .sum()
    };
    let below: u64 = (1..=64).map(after_first).sum();
    bits_of_counts(lengths.into_iter()) + below
}

/// The number of occurrences of each distinct value.
struct Values(Vec<u64>);

impl Values {
    fn count(values: impl Iterator<Item = u64>) -> Self {
        let mut sorted: Vec<u64> = values.collect();
        sorted.sort_unstable();
        let groups = sorted.chunk_by(|a, b| a == b);
        Self(groups.map(|group| group.len() as u64).collect())
    }

    fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns the number of values that occur once. Their share estimates the
    /// share of all values that the sample does not contain.
    fn singles(&self) -> u64 {
        self.0.iter().filter(|&&count| count == 1).count() as u64
    }

    fn are_well_known(&self) -> bool {
        self.singles() * 8 <= self.total()
    }

    fn is_palette(&self) -> bool {
        self.singles() * 16 <= self.total()
    }

    fn bits(&self) -> u64 {
        bits_of_counts(self.0.iter().copied())
    }
}

const CONTEXTS: usize = 65;
/// The context of all elements of a tensor that equals the base's tensor in
/// every sampled element.
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
            Dtype::Bf16 | Dtype::F16 | Dtype::F32 => mantissa_bits(dtype)?,
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
            // The context is 48 minus twice the base-2 logarithm of the mean
            // change, measured in units in the last place of a number with this
            // exponent.
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
    let below = (POINT * ONE + log2(found.len() as u64)).saturating_sub(log2(sum));
    Some((2 * largest).saturating_sub(2 * below / ONE))
}

/// The number of differences of each length in each context, over a whole
/// checkpoint.
pub struct ContextTables {
    counts: Vec<[u64; LENGTHS]>,
    totals: [u64; CONTEXTS],
}

impl ContextTables {
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

    /// Returns the bits of all sampled elements, in the unit of [`ONE`].
    pub fn bits(&self, tensor: &Differences) -> u64 {
        let bits = tensor.elements.iter().map(|&(context, difference)| {
            let length = length(difference);
            let count = self.counts[context][length as usize];
            bits_of_symbol(count, self.totals[context]) + u64::from(length.saturating_sub(1)) * ONE
        });
        bits.sum()
    }
}

/// One bit, in the unit of this module.
pub const ONE: u64 = 1 << 16;

/// The Miller–Madow correction, half of 1/ln 2 bits, in the unit of [`ONE`].
/// For each further value that occurs, a sample of any length underestimates
/// its total entropy by this much.
const HIDDEN_PER_VALUE: u64 = 47_274;

/// Returns the logarithm of `number` to base 2, rounded down; 0 for 0.
pub fn log2(number: u64) -> u64 {
    let Some(whole) = number.checked_ilog2() else {
        return 0;
    };
    // The number has 32 bits, 31 of them after the binary point.
    let mut mantissa = (number << (63 - whole)) >> 32;
    let mut fraction = 0;
    for _ in 0..16 {
        mantissa = (mantissa * mantissa) >> 31;
        let carry = mantissa >> 32;
        fraction = fraction << 1 | carry;
        mantissa >>= carry;
    }
    u64::from(whole) * ONE + fraction
}

/// Returns the bits that a symbol takes if it occurs `count` times of `total`.
pub(crate) fn bits_of_symbol(count: u64, total: u64) -> u64 {
    log2(total).saturating_sub(log2(count))
}

/// Returns the bits of a sample with these counts of values, coded with their
/// own distribution.
pub(crate) fn bits_of_counts(counts: impl Iterator<Item = u64> + Clone) -> u64 {
    let total: u64 = counts.clone().sum();
    let (mut bits, mut values) = (0u64, 0u64);
    for count in counts.filter(|&count| count > 0) {
        bits += count * bits_of_symbol(count, total);
        values += 1;
    }
    bits + values.saturating_sub(1) * HIDDEN_PER_VALUE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms() {
        for (number, expected) in [(0, 0), (1, 0), (2, ONE), (1 << 63, 63 * ONE)] {
            assert_eq!(log2(number), expected);
        }
        for number in 1..5000_u32 {
            let exact = f64::from(number).log2() * ONE as f64;
            assert!(
                (log2(number.into()) as f64 - exact).abs() < 1.01,
                "{number}"
            );
        }
    }

    #[test]
    fn entropies() {
        assert_eq!(bits_of_counts([7, 0].into_iter()), 0);
        assert_eq!(
            bits_of_counts([4, 4].into_iter()),
            8 * ONE + HIDDEN_PER_VALUE
        );
    }
}
