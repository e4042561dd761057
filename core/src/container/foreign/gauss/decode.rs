//! Decodes a tensor from its stored bytes (docs/formats/gauss.md 8.3 and 9),
//! and converts the elements of every dtype that a Gauss file can name from and
//! to double precision (docs/formats/gauss.md 3).

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;

use super::index::{GaussShard, IndexedTensor, TensorCoding, unearned_elements};
use crate::dtype::Dtype;
use crate::engine::Engine;
use crate::entropy::ans::{Categorical, Decoder, Gaussian};
use crate::float::power_of_two;
use crate::{Error, Result, bytes};

/// The number of elements decoded between two checks for the end of the
/// streams. After that end all elements are equal, so a forged element count
/// costs little.
const CHUNK_ELEMENTS: usize = 512;

/// Decodes a tensor, little-endian and row-major, from the bytes
/// [`IndexedTensor::stored`] of the file.
///
/// Every value of a coded tensor differs from the original by at most half a
/// step ([`GaussShard::scale`]) plus the rounding of the dtype, unless the encoder
/// clipped it.
pub fn decode<'a, E: Engine>(
    engine: &E,
    tensor: &IndexedTensor,
    stored: &'a [u8],
) -> Result<Cow<'a, [u8]>> {
    let wrong = || Error::invalid_input("the input does not have the tensor's stored length");
    if stored.len() as u64 != tensor.stored_len_bytes() {
        return Err(wrong().tensor(&tensor.name));
    }
    let TensorCoding::Mixture(shards) = &tensor.coding else {
        return Ok(Cow::Borrowed(stored));
    };
    unearned_elements(shards, 0).map_err(|error| error.tensor(&tensor.name))?;
    let parts: Vec<(&GaussShard, &[u8])> = shards
        .iter()
        .map(|shard| {
            let start = shard.stored.start - tensor.stored.start;
            let end = shard.stored.end - tensor.stored.start;
            (shard, bytes::part(stored, start..end))
        })
        .collect();
    let parts = engine.map(parts, |(shard, stored)| {
        decode_elements(tensor.dtype, shard, stored)
    });
    let mut all = Vec::new();
    for (number, part) in parts.into_iter().enumerate() {
        let part = part.map_err(|error| in_shard(error, tensor, number))?;
        if all.is_empty() {
            all = part;
        } else {
            all.extend_from_slice(&part);
        }
    }
    Ok(Cow::Owned(all))
}

/// Decodes the elements [`GaussShard::elements`] of a coded tensor from the bytes
/// [`GaussShard::stored`] of its shard `number`.
pub fn decode_shard(tensor: &IndexedTensor, number: usize, stored: &[u8]) -> Result<Vec<u8>> {
    let Some(shard) = tensor.shards().get(number) else {
        let detail = format!("the tensor has no shard {number}");
        return Err(Error::invalid_input(detail).tensor(&tensor.name));
    };
    if stored.len() as u64 != shard.stored.end - shard.stored.start {
        let detail = "the input does not have the shard's stored length";
        return Err(Error::invalid_input(detail).tensor(&tensor.name));
    }
    unearned_elements(core::slice::from_ref(shard), 0)
        .and_then(|_| decode_elements(tensor.dtype, shard, stored))
        .map_err(|error| in_shard(error, tensor, number))
}

fn in_shard(error: Error, tensor: &IndexedTensor, number: usize) -> Error {
    let shard = &tensor.shards()[number];
    error.at(0).within(shard.stored.start).tensor(&tensor.name)
}

fn decode_elements(dtype: Dtype, shard: &GaussShard, stored: &[u8]) -> Result<Vec<u8>> {
    /// Decodes all elements. `to_bytes` rounds the exact value of an element to
    /// the dtype.
    fn each<const N: usize>(
        shard: &GaussShard,
        stored: &[u8],
        to_bytes: impl Fn(f64) -> [u8; N],
    ) -> Result<Vec<u8>> {
        let mut streams = Streams::open(shard, stored)?;
        let mut out = bytes::buffer(shard.element_count() * N as u64)?;
        let mut values = [0.0; CHUNK_ELEMENTS];
        for elements in out.as_chunks_mut().0.chunks_mut(CHUNK_ELEMENTS) {
            let values = &mut values[..elements.len()];
            if streams.are_over() {
                streams.fill(&mut values[..1]);
                elements.fill(to_bytes(values[0]));
                continue;
            }
            streams.fill(values);
            for (element, value) in elements.iter_mut().zip(values) {
                *element = to_bytes(*value);
            }
        }
        streams.finish()?;
        Ok(out)
    }
    // These are the roundings of gauss.md 3. Integers are truncated, and `as`
    // saturates.
    #[allow(clippy::cast_possible_truncation)]
    match id(dtype) {
        Some(0) => each(shard, stored, |v| (v as f32).to_le_bytes()),
        Some(1) => each(shard, stored, |v| f16(v).to_le_bytes()),
        Some(2) => each(shard, stored, |v| bf16(v).to_le_bytes()),
        Some(3) => each(shard, stored, f64::to_le_bytes),
        Some(4) => each(shard, stored, |v| (v as i8).to_le_bytes()),
        Some(5) => each(shard, stored, |v| (v as i16).to_le_bytes()),
        Some(6) => each(shard, stored, |v| (v as i32).to_le_bytes()),
        Some(7) => each(shard, stored, |v| (v as i64).to_le_bytes()),
        _ => Err(Error::invalid_input(format!(
            "{dtype} is not a dtype of Gauss files"
        ))),
    }
}

/// The two streams of a shard, which are decoded together.
struct Streams<'a> {
    index: Decoder<'a>,
    residual: Decoder<'a>,
    categorical: Categorical,
    components: Vec<(f64, Gaussian)>,
    scale: f64,
}

impl<'a> Streams<'a> {
    fn open(shard: &GaussShard, stored: &'a [u8]) -> Result<Self> {
        let split = 4 * u64::from(shard.index_words);
        let (index, residual) = stored.split_at(bytes::index(split));
        Ok(Self {
            index: Decoder::open(index)?,
            residual: Decoder::open(residual)?,
            categorical: Categorical::new(&shard.mixture.probabilities()),
            components: components(shard),
            scale: f64::from(shard.scale),
        })
    }

    /// Computes the exact values of the next elements.
    fn fill(&mut self, values: &mut [f64]) {
        // The decoders are copied to local variables, which the compiler can
        // keep in registers.
        let (mut index, mut residual) = (self.index.clone(), self.residual.clone());
        for value in values {
            let (component, interval) = self.categorical.find(index.quantile());
            index.pop(interval);
            let (mean, gaussian) = &mut self.components[usize::from(component)];
            let (steps, interval) = gaussian.find(residual.quantile());
            residual.pop(interval);
            *value = *mean + f64::from(steps) / self.scale;
        }
        (self.index, self.residual) = (index, residual);
    }

    /// Returns whether both streams are exhausted, so that all remaining
    /// elements are equal.
    fn are_over(&self) -> bool {
        self.index.is_empty() && self.residual.is_empty()
    }

    fn finish(self) -> Result<()> {
        self.index.finish()?;
        self.residual.finish()
    }
}

fn components(shard: &GaussShard) -> Vec<(f64, Gaussian)> {
    let GaussShard { mixture, scale, .. } = shard;
    let gaussians = mixture.deviations.iter();
    let gaussians = gaussians.map(|deviation| Gaussian::new(deviation * f64::from(*scale)));
    mixture.means.iter().copied().zip(gaussians).collect()
}

const IDS: [Dtype; 8] = [
    Dtype::F32,
    Dtype::F16,
    Dtype::Bf16,
    Dtype::F64,
    Dtype::I8,
    Dtype::I16,
    Dtype::I32,
    Dtype::I64,
];

pub(crate) fn from_id(id: u8) -> Option<Dtype> {
    IDS.get(usize::from(id)).copied()
}

pub fn id(dtype: Dtype) -> Option<u8> {
    (0..=u8::MAX)
        .zip(IDS)
        .find(|known| known.1 == dtype)
        .map(|known| known.0)
}

/// Returns whether the encoder codes tensors of this dtype.
pub(crate) fn is_float(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::Bf16 | Dtype::F64)
}

/// Returns the size in bytes of an element of a dtype that Gauss files can
/// name.
pub fn width(dtype: Dtype) -> u64 {
    dtype.bits() / 8
}

/// Returns the signed integer dtype of the same size, as which tensors of a
/// dtype without an id are stored.
pub(crate) fn signed_of_same_width(dtype: Dtype) -> Option<Dtype> {
    match dtype.bits() {
        8 => Some(Dtype::I8),
        16 => Some(Dtype::I16),
        32 => Some(Dtype::I32),
        64 => Some(Dtype::I64),
        _ => None,
    }
}

/// Returns the float elements of `bytes` in double precision.
///
/// # Panics
/// If the dtype is not a float of Gauss files.
pub fn to_f64(dtype: Dtype, bytes: &[u8]) -> Vec<f64> {
    match dtype {
        Dtype::F32 => each(bytes, |e| f32::from_le_bytes(e).into()),
        Dtype::F16 => each(bytes, |e| f16_to_f64(u16::from_le_bytes(e))),
        Dtype::Bf16 => each(bytes, |[low, high]| {
            f32::from_le_bytes([0, 0, low, high]).into()
        }),
        Dtype::F64 => each(bytes, f64::from_le_bytes),
        other => panic!("{other} is not coded"),
    }
}

/// Converts every `N` bytes to a number.
pub fn each<const N: usize>(bytes: &[u8], convert: impl Fn([u8; N]) -> f64) -> Vec<f64> {
    bytes.as_chunks().0.iter().map(|&e| convert(e)).collect()
}

/// Returns the half-precision number with these bits.
pub(crate) fn f16_to_f64(bits: u16) -> f64 {
    let fraction = f64::from(bits & 0x3FF);
    let magnitude = match bits >> 10 & 0x1F {
        0 => fraction * power_of_two(-24),
        0x1F if bits & 0x3FF == 0 => f64::INFINITY,
        0x1F => f64::NAN,
        exponent => (1024.0 + fraction) * power_of_two(i32::from(exponent) - 25),
    };
    if bits >> 15 == 0 {
        magnitude
    } else {
        -magnitude
    }
}

/// Rounds to the nearest half-precision number, ties to even, in one rounding.
pub fn f16(value: f64) -> u16 {
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let magnitude = value.abs();
    if magnitude.is_nan() {
        return sign | 0x7E00;
    }
    // Halfway between the largest finite number and the next power of two.
    if magnitude >= 65520.0 {
        return sign | 0x7C00;
    }
    // The exponent of the number determines the step; subnormals have the step
    // of the smallest normal number. Rounding a multiple of the step is exact.
    let biased = i32::try_from(magnitude.to_bits() >> 52).unwrap_or_default();
    let exponent = (biased - 1023).max(-14);
    let steps = round_even(magnitude * power_of_two(10 - exponent));
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most 2048
    let steps = steps as u16;
    let exponent = u16::try_from(exponent + 14).unwrap_or_default();
    // A carry out of the fraction increments the exponent, as it should.
    sign | ((exponent << 10) + steps)
}

/// Rounds to the nearest bfloat16 in two steps, the first one to single
/// precision.
pub fn bf16(value: f64) -> u16 {
    #[allow(clippy::cast_possible_truncation)] // the first rounding
    let single = value as f32;
    let bits = single.to_bits();
    let [_, _, low, high] = if single.is_nan() {
        (bits | 0x0040_0000).to_le_bytes()
    } else {
        (bits + 0x7FFF + (bits >> 16 & 1)).to_le_bytes()
    };
    u16::from_le_bytes([low, high])
}

/// Rounds to the nearest integer, ties to even. The magnitude must be below
/// 2^51.
pub(crate) fn round_even(value: f64) -> f64 {
    const SHIFT: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52
    (value + SHIFT) - SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_comes_back_and_its_borders_round_to_even() {
        for bits in 0..0x7C00u16 {
            let value = f16_to_f64(bits);
            assert_eq!(f16(value), bits);
            assert_eq!(f16(-value), bits | 0x8000);
            let next = if bits == 0x7BFF {
                65536.0
            } else {
                f16_to_f64(bits + 1)
            };
            let border = f64::midpoint(value, next);
            assert_eq!(f16(border), bits + (bits & 1), "{border}");
            assert_eq!(f16(border.next_down()), bits, "below {border}");
            assert_eq!(f16(border.next_up()), bits + 1, "above {border}");
        }
        assert_eq!(f16(f64::INFINITY), 0x7C00);
        assert_eq!(f16(1e-300), 0);
        assert!(f16_to_f64(0xFE00).is_nan());
    }

    #[test]
    fn bfloat16_is_rounded_twice() {
        // The value is just above a tie, and single precision rounds it to the
        // tie.
        let value = 1.0 + 2f64.powi(-8) + 2f64.powi(-40);
        assert_eq!(bf16(value), 0x3F80);
        assert_eq!(bf16(1.0 + 3.0 * 2f64.powi(-8)), 0x3F82);
        assert_eq!(bf16(f64::from(f32::MAX)), 0x7F80);
    }

    #[test]
    fn ties_go_to_even() {
        assert_eq!(
            [0.5, 1.5, -2.5, 2.4999].map(round_even),
            [0.0, 2.0, -2.0, 2.0]
        );
    }
}
