//! Linear combinations of float tensors, which merged checkpoints consist of, and tensors
//! rounded to another dtype (docs/formats/zstn-delta.md 9). All arithmetic is IEEE double precision without
//! fused operations, so every platform computes the same bits.

use alloc::vec;
use alloc::vec::Vec;

use half::f16;

use crate::bytes::part;
use crate::float::{FloatType, from_bf16};

mod fit;

pub(crate) use fit::differing_bits;
pub use fit::{SAMPLE_ELEMENTS, fit, nearest};

/// The format to which products and sums are rounded before the next step. The
/// discriminants are the numbers of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Arithmetic {
    /// Double precision: only the result is rounded.
    Double = 0,
    /// Single precision.
    Single = 1,
    /// The dtype of the tensor: single precision, then rounded to it.
    Element = 2,
}

impl Arithmetic {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Double, Self::Single, Self::Element];
}

/// A linear combination of the tensors with one name in several sources.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix {
    /// How products and sums are rounded.
    pub arithmetic: Arithmetic,
    /// The weight of each source. A source with the weight 0 is not used.
    pub weights: Vec<f64>,
}

impl Mix {
    /// Returns the combination that equals source `number` of `count`.
    #[must_use]
    pub fn copy_of(number: usize, count: usize) -> Self {
        let mut weights = vec![0.0; count];
        if let Some(weight) = weights.get_mut(number) {
            *weight = 1.0;
        }
        Self {
            arithmetic: Arithmetic::Double,
            weights,
        }
    }

    /// Returns the numbers of the sources that are used.
    pub fn used(&self) -> impl Iterator<Item = usize> {
        let weights = self.weights.iter().enumerate();
        weights.filter_map(|(number, weight)| (*weight != 0.0).then_some(number))
    }

    /// Returns whether the result has the values of the only source that is used.
    #[must_use]
    pub fn is_copy(&self) -> bool {
        let mut used = self.used();
        match (used.next(), used.next()) {
            (Some(only), None) => self.weights[only].to_bits() == 1.0f64.to_bits(),
            _ => false,
        }
    }

    /// Computes elements of type `float` from the same elements of the sources that are
    /// used, in their order. Each source has its own type of elements.
    ///
    /// # Panics
    /// If the numbers of elements differ, or a length is not a multiple of the length of an
    /// element.
    pub fn apply(&self, float: FloatType, sources: &[(FloatType, &[u8])], out: &mut [u8]) {
        let step = float.len_bytes();
        let elements = out.len() / step;
        assert_eq!(out.len(), elements * step);
        assert!(
            sources
                .iter()
                .all(|(of_source, bytes)| bytes.len() == elements * of_source.len_bytes())
        );
        if let (true, [(of_source, bytes)]) = (self.is_copy(), sources)
            && *of_source == float
        {
            out.copy_from_slice(bytes);
            return;
        }
        let weights: Vec<f64> = self.used().map(|number| self.weights[number]).collect();
        let mut sums = [0.0; CHUNK];
        let mut at = 0;
        for chunk in out.chunks_mut(CHUNK * step) {
            let sums = &mut sums[..chunk.len() / step];
            let range = at..at + sums.len() as u64;
            at = range.end;
            for (place, ((of_source, source), weight)) in sources.iter().zip(&weights).enumerate() {
                let width = of_source.len_bytes() as u64;
                let source = part(source, range.start * width..range.end * width);
                let weight = match self.arithmetic {
                    Arithmetic::Double => *weight,
                    Arithmetic::Single | Arithmetic::Element => f64::from(single(*weight)),
                };
                let add = |sum: &mut f64, value: f64| {
                    let product = self.arithmetic.rounded(float, weight * value);
                    *sum = match place {
                        0 => product,
                        _ => self.arithmetic.rounded(float, *sum + product),
                    };
                };
                each(*of_source, source, sums, add);
            }
            store(float, sums, chunk);
        }
    }
}

/// The number of elements that are computed at a time.
const CHUNK: usize = 1024;

impl Arithmetic {
    /// Rounds the result of one step in the arithmetic of elements of type `float`.
    fn rounded(self, float: FloatType, value: f64) -> f64 {
        match self {
            Self::Double => value,
            Self::Single => f64::from(single(value)),
            Self::Element => rounded(float, f64::from(single(value))),
        }
    }
}

#[allow(clippy::cast_possible_truncation)] // rounds to the nearest, ties to even
fn single(value: f64) -> f32 {
    value as f32
}

/// Rounds to the nearest number of type `float`, ties to even.
fn rounded(float: FloatType, value: f64) -> f64 {
    // The bits of the fraction, and the exponents of the smallest and the largest normal
    // numbers, with the bias of double precision.
    let (digits, min, max) = match float {
        FloatType::F32 => return f64::from(single(value)),
        FloatType::Bf16 => (7, 1023 - 126, 1023 + 127),
        FloatType::F16 => (10, 1023 - 14, 1023 + 15),
    };
    let bits = value.to_bits();
    let exponent = bits >> 52 & 0x7ff;
    let sign = bits & 1 << 63;
    if exponent > max {
        return match value.is_nan() {
            true => value,
            false => f64::from_bits(sign | f64::INFINITY.to_bits()),
        };
    }
    // Adding one and a half times a power of two leaves no digits beyond the last place
    // of the result. Its sign is lost only for zero.
    let large = f64::from_bits((exponent.max(min) + 52 - digits) << 52 | 1 << 51);
    let result = (value + large) - large;
    let overflows = result.to_bits() >> 52 & 0x7ff > max;
    let magnitude = match overflows {
        true => f64::INFINITY.to_bits(),
        false => result.to_bits() & !(1 << 63),
    };
    f64::from_bits(sign | magnitude)
}

/// Calls `add` for each of `sums` with the value of its element.
fn each(float: FloatType, bytes: &[u8], sums: &mut [f64], mut add: impl FnMut(&mut f64, f64)) {
    match float {
        FloatType::Bf16 => {
            for (sum, bits) in sums.iter_mut().zip(bytes.as_chunks().0) {
                add(sum, f64::from(from_bf16(u16::from_le_bytes(*bits))));
            }
        }
        FloatType::F16 => {
            for (sum, bits) in sums.iter_mut().zip(bytes.as_chunks().0) {
                add(sum, f16::from_le_bytes(*bits).to_f64());
            }
        }
        FloatType::F32 => {
            for (sum, bits) in sums.iter_mut().zip(bytes.as_chunks().0) {
                add(sum, f64::from(f32::from_le_bytes(*bits)));
            }
        }
    }
}

/// Rounds values to elements. Every NaN becomes the same one.
fn store(float: FloatType, values: &[f64], out: &mut [u8]) {
    match float {
        FloatType::Bf16 => {
            for (value, bits) in values.iter().zip(out.as_chunks_mut().0) {
                let [.., low, high] = match value.is_nan() {
                    true => [0, 0, 0xc0, 0x7f],
                    false => single(rounded(float, *value)).to_le_bytes(),
                };
                *bits = [low, high];
            }
        }
        FloatType::F16 => {
            for (value, bits) in values.iter().zip(out.as_chunks_mut().0) {
                *bits = match value.is_nan() {
                    true => [0, 0x7e],
                    false => f16::from_f64(rounded(float, *value)).to_le_bytes(),
                };
            }
        }
        FloatType::F32 => {
            for (value, bits) in values.iter().zip(out.as_chunks_mut().0) {
                *bits = match value.is_nan() {
                    true => [0, 0, 0xc0, 0x7f],
                    false => single(*value).to_le_bytes(),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::float::{to_bf16, to_f16};

    /// Values near every boundary of the 16-bit types.
    fn values() -> impl Iterator<Item = f32> {
        let bits = (0..=u32::from(u16::MAX)).flat_map(|high| {
            [0, 1, 0x0fff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001, 0xffff]
                .map(|low| high << 16 | low)
        });
        bits.map(f32::from_bits).filter(|value| !value.is_nan())
    }

    #[test]
    fn numbers_are_rounded_as_from_single_precision() {
        for value in values() {
            let mut out = [0; 2];
            store(FloatType::Bf16, &[f64::from(value)], &mut out);
            assert_eq!(u16::from_le_bytes(out), to_bf16(value), "{value:e}");
            store(FloatType::F16, &[f64::from(value)], &mut out);
            assert_eq!(u16::from_le_bytes(out), to_f16(value), "{value:e}");
        }
    }

    #[test]
    fn digits_beyond_single_precision_decide_a_tie() {
        let above_tie = 1.0 + 1.0 / 256.0 + f64::EPSILON;
        assert_eq!(rounded(FloatType::Bf16, above_tie), 1.0 + 1.0 / 128.0);
        assert_eq!(rounded(FloatType::Bf16, 1.0 + 1.0 / 256.0), 1.0);
        let below = -(1.0 + 3.0 / 2048.0 - f64::EPSILON);
        assert_eq!(rounded(FloatType::F16, below), -(1.0 + 1.0 / 1024.0));
    }

    #[test]
    fn what_is_no_number_has_one_form() {
        let mix = Mix {
            arithmetic: Arithmetic::Double,
            weights: vec![1.0, -1.0],
        };
        for (float, infinity, nan) in [
            (FloatType::Bf16, &[0x80, 0x7f][..], &[0xc0, 0x7f][..]),
            (FloatType::F16, &[0, 0x7c], &[0, 0x7e]),
            (FloatType::F32, &[0, 0, 0x80, 0x7f], &[0, 0, 0xc0, 0x7f]),
        ] {
            let mut out = infinity.to_vec();
            mix.apply(float, &[(float, infinity), (float, infinity)], &mut out);
            assert_eq!(out, nan);
        }
    }
}
