//! Decodes a tensor from its stored bytes (docs/formats/gauss.md 8.3 and 9).

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;

use super::element;
use super::index::{IndexedTensor, Shard, TensorCoding, unearned_elements};
use crate::dtype::Dtype;
use crate::engine::Engine;
use crate::entropy::ans::{Categorical, Decoder, Gaussian};
use crate::{Error, Result, bytes};

/// The number of elements decoded between two checks for the end of the
/// streams. After that end all elements are equal, so a forged element count
/// costs little.
const CHUNK_ELEMENTS: usize = 512;

/// Decodes a tensor, little-endian and row-major, from the bytes
/// [`IndexedTensor::stored`] of the file.
///
/// Every value of a coded tensor differs from the original by at most half a
/// step ([`Shard::scale`]) plus the rounding of the dtype, unless the encoder
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
    let parts: Vec<(&Shard, &[u8])> = shards
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

/// Decodes the elements [`Shard::elements`] of a coded tensor from the bytes
/// [`Shard::stored`] of its shard `number`.
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

fn decode_elements(dtype: Dtype, shard: &Shard, stored: &[u8]) -> Result<Vec<u8>> {
    /// Decodes elements, which `to_bytes` rounds from their exact values.
    fn each<const N: usize>(
        shard: &Shard,
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
    match element::id(dtype) {
        Some(0) => each(shard, stored, |v| (v as f32).to_le_bytes()),
        Some(1) => each(shard, stored, |v| element::f16(v).to_le_bytes()),
        Some(2) => each(shard, stored, |v| element::bf16(v).to_le_bytes()),
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
    fn open(shard: &Shard, stored: &'a [u8]) -> Result<Self> {
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
        // The compiler keeps local copies in registers.
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

fn components(shard: &Shard) -> Vec<(f64, Gaussian)> {
    let Shard { mixture, scale, .. } = shard;
    let gaussians = mixture.deviations.iter();
    let gaussians = gaussians.map(|deviation| Gaussian::new(deviation * f64::from(*scale)));
    mixture.means.iter().copied().zip(gaussians).collect()
}
