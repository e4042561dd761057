//! Finds the combination of several sources that is nearest to a tensor.

use alloc::vec;
use alloc::vec::Vec;

use super::{Arithmetic, CHUNK, Mix, each};
use crate::float::FloatType;

/// The number of elements of each tensor that [`fit`] should receive. The weights of
/// rounded elements are known to about this precision.
pub const SAMPLE_ELEMENTS: u64 = 1 << 16;

/// People choose weights such as 0.3. Each of these fractions is tried.
const FRACTIONS: [f64; 3] = [20.0, 100.0, 1000.0];

/// Returns the combination of `sources` that predicts `target` best: the one whose
/// differences have the fewest significant bits. All of them have the same elements of
/// type `float`. `numbers` has the number of each source among `count`.
#[must_use]
pub fn fit(
    float: FloatType,
    target: &[u8],
    sources: &[&[u8]],
    numbers: &[usize],
    count: usize,
) -> Mix {
    let (nearest, bits) = nearest_with_bits(float.len_bytes(), target, sources);
    let mut best = (Mix::copy_of(numbers[nearest], count), bits);
    let Some(exact) = least_squares(float, target, sources) else {
        return best.0;
    };
    let fractions = FRACTIONS.iter().map(|fraction| {
        let rounded = exact
            .iter()
            .map(|weight| libm::rint(weight * fraction) / fraction);
        rounded.collect::<Vec<f64>>()
    });
    let candidates: Vec<Vec<f64>> = fractions.chain([exact.clone()]).collect();
    let mut out = vec![0; target.len()];
    for weights in candidates {
        let mut of_all = vec![0.0; count];
        for (number, weight) in numbers.iter().zip(&weights) {
            of_all[*number] = *weight;
        }
        for arithmetic in Arithmetic::ALL {
            let mix = Mix {
                arithmetic,
                weights: of_all.clone(),
            };
            let used = numbers.iter().zip(sources);
            let used = used.filter(|(number, _)| mix.weights[**number] != 0.0);
            let used: Vec<_> = used.map(|(_, source)| (float, *source)).collect();
            if used.is_empty() {
                continue;
            }
            mix.apply(float, &used, &mut out);
            let bits = differing_bits(float.len_bytes(), target, &out);
            if bits < best.1 {
                best = (mix, bits);
            }
        }
    }
    best.0
}

/// Returns the index of the source whose elements of `element_bytes` differ in the fewest
/// significant bits from `target`. All have the same length, and there is at least one.
#[must_use]
pub fn nearest(element_bytes: usize, target: &[u8], sources: &[&[u8]]) -> usize {
    nearest_with_bits(element_bytes, target, sources).0
}

fn nearest_with_bits(element_bytes: usize, target: &[u8], sources: &[&[u8]]) -> (usize, u64) {
    let bits = sources
        .iter()
        .map(|source| differing_bits(element_bytes, target, source));
    let numbered = bits.enumerate().min_by_key(|(_, bits)| *bits);
    numbered.unwrap_or_default()
}

/// Returns the number of significant bits of all XORs of two elements.
pub(crate) fn differing_bits(element_bytes: usize, one: &[u8], two: &[u8]) -> u64 {
    let elements = one.chunks(element_bytes).zip(two.chunks(element_bytes));
    let bits = elements.map(|(one, two)| {
        let bytes = one.iter().zip(two).rev();
        let mut xor = bytes.map(|(one, two)| one ^ two).enumerate();
        let first = xor.find(|(_, byte)| *byte != 0);
        first.map_or(0, |(place, byte)| {
            let lower = (one.len() - 1 - place) * 8;
            lower as u64 + u64::from(u8::BITS - byte.leading_zeros())
        })
    });
    bits.sum()
}

/// Returns the weights with the least squares of the relative differences, because the
/// elements of the target were rounded by about the same share of their magnitude. `None`
/// if the weights are not finite. Elements that are not finite do not count.
fn least_squares(float: FloatType, target: &[u8], sources: &[&[u8]]) -> Option<Vec<f64>> {
    let count = sources.len();
    // One row for each source: its products with all sources, and with the target.
    let mut rows = vec![vec![0.0; count + 1]; count];
    let step = CHUNK * float.len_bytes();
    let mut values = vec![[0.0; CHUNK]; count + 1];
    for start in (0..target.len()).step_by(step) {
        let end = target.len().min(start + step);
        let elements = (end - start) / float.len_bytes();
        for (values, bytes) in values.iter_mut().zip(sources.iter().chain([&target])) {
            each(
                float,
                &bytes[start..end],
                &mut values[..elements],
                |to, value| *to = value,
            );
        }
        for place in 0..elements {
            if !values.iter().all(|values| values[place].is_finite()) {
                continue;
            }
            let scale = reciprocal(values.iter().map(|values| values[place]));
            for (row, first) in rows.iter_mut().zip(&values) {
                for (sum, second) in row.iter_mut().zip(&values) {
                    *sum += (first[place] * scale) * (second[place] * scale);
                }
            }
        }
    }
    solve(rows)
}

/// Returns a power of two that brings the largest magnitude near 1, and 0 if all numbers are
/// zero. All are finite.
fn reciprocal(numbers: impl Iterator<Item = f64>) -> f64 {
    const MANTISSA_BITS: u32 = f64::MANTISSA_DIGITS - 1;
    /// The sum of the biased exponents of a power of two and of its reciprocal.
    const BIAS_SUM: u64 = 2 * (f64::MAX_EXP as u64 - 1);
    let magnitudes = numbers.map(|number| number.abs().to_bits() >> MANTISSA_BITS);
    match magnitudes.max().unwrap_or_default() {
        0 => 0.0,
        exponent => f64::from_bits((BIAS_SUM - exponent) << MANTISSA_BITS),
    }
}

/// Solves linear equations. The last value of each row is its right side. A source that is
/// a combination of the sources before it gets the weight 0.
fn solve(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    /// The least share of a source that no combination of others has.
    const MIN_SHARE: f64 = 1e-12;
    let count = rows.len();
    let mut is_used = vec![false; count];
    let diagonal: Vec<f64> = (0..count).map(|column| rows[column][column]).collect();
    for column in 0..count {
        let pivot = rows[column].clone();
        is_used[column] = pivot[column] > diagonal[column] * MIN_SHARE;
        if !is_used[column] {
            continue;
        }
        for (number, row) in rows.iter_mut().enumerate() {
            if number != column {
                let factor = row[column] / pivot[column];
                for (value, of_pivot) in row.iter_mut().zip(&pivot) {
                    *value -= factor * of_pivot;
                }
            }
        }
    }
    let weights = rows.iter().zip(is_used).enumerate();
    let weights = weights.map(|(place, (row, is_used))| match is_used {
        true => row[count] / row[place],
        false => 0.0,
    });
    let weights: Vec<f64> = weights.collect();
    weights
        .iter()
        .all(|weight| weight.is_finite())
        .then_some(weights)
}
