//! Estimates the size of a tensor in a plain frame from a sample of its
//! elements: the entropy of its planes (docs/formats/sketch.md 3).

use alloc::vec::Vec;
use core::ops::Range;

use super::bits::{self, ONE};
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

/// Returns the bits that `words` take together, in the unit of [`bits`]. This
/// is the smallest of four encodings: byte planes, the fields of floats, a mask
/// with the nonzero words, and indices into a palette.
pub fn coded_bits(dtype: Dtype, words: &[u64]) -> u64 {
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
        let mask = bits::of_counts([zeros, nonzero.len() as u64].into_iter());
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

/// Returns the bits of the byte planes of `range`, cut from its highest bit
/// down.
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
        ones.map(|&ones| bits::of_counts([ones, lengths[length] - ones].into_iter()))
            .sum()
    };
    let below: u64 = (1..=64).map(after_first).sum();
    bits::of_counts(lengths.into_iter()) + below
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
        bits::of_counts(self.0.iter().copied())
    }
}
