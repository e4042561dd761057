//! The encoder's report on each tensor, and the comparison of a coded tensor
//! with its original and with the error bound of the format
//! (docs/formats/gauss.md 5).

use alloc::string::String;
use alloc::vec::Vec;

use super::element::{each, to_f64};
use super::index::IndexedTensor;
use crate::bytes::part;
use crate::dtype::Dtype;
use crate::float::power_of_two;
use crate::{Error, Result};

/// The report on a file.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// The length of the file in bytes.
    pub len_bytes: u64,
    /// The reports on the tensors, in file order.
    pub tensors: Vec<TensorReport>,
}

/// The report on one tensor.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TensorReport {
    /// The name of the tensor.
    pub name: String,
    /// The dtype in the file.
    pub dtype: Dtype,
    /// The number of elements.
    pub element_count: u64,
    /// The length of the original in bytes.
    pub len_bytes: u64,
    /// The length of its data and mixtures in the file, in bytes.
    pub stored_len_bytes: u64,
    /// The largest distance between an element and its decoded value.
    pub max_error: f64,
    /// The root of the mean squared distance.
    pub rms_error: f64,
    /// The standard deviation of the elements, with which the errors can be
    /// compared; 0 for a raw tensor.
    pub deviation: f64,
    /// The reason why the tensor is stored raw, if it is.
    pub raw: Option<RawReason>,
    /// The reports on the shards; none for a raw tensor.
    pub shards: Vec<ShardReport>,
}

/// The report on one shard.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct ShardReport {
    /// The number of Gaussians in the mixture.
    pub components: u32,
    /// The number of components added for values far from all others.
    pub added: u32,
    /// The number of iterations of the fit.
    pub iterations: u32,
    /// The number of steps per unit.
    pub scale: u32,
    /// The largest distance between an element and its decoded value.
    pub max_error: f64,
}

impl TensorReport {
    /// Returns the number of bits in the file per element.
    #[must_use]
    pub fn bits_per_element(&self) -> f64 {
        #[allow(clippy::cast_precision_loss)] // the result is only displayed
        let (bits, count) = (
            self.stored_len_bytes as f64 * 8.0,
            self.element_count as f64,
        );
        if count == 0.0 { 0.0 } else { bits / count }
    }
}

/// The reason why a tensor is stored unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RawReason {
    /// The tensor has one dimension, or fewer elements than the threshold.
    Small,
    /// The elements are not floats.
    Integers,
    /// The tensor contains NaN, an infinity, or a double outside the range of
    /// single precision.
    NotFinite,
    /// The values are too far apart for 255 Gaussians at this scale.
    OutOfReach,
    /// The coded bytes would not be shorter than the raw ones.
    Smaller,
}

impl RawReason {
    /// Returns the name of the reason in JSON output and in JavaScript.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Integers => "integers",
            Self::NotFinite => "not_finite",
            Self::OutOfReach => "out_of_reach",
            Self::Smaller => "smaller",
        }
    }
}

/// The allowance for rounding in the comparison itself.
const SLACK: f64 = 1.0 + 1e-9;

/// The result of comparing a tensor with its original.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Errors {
    /// The largest distance between an element and its decoded value.
    pub max: f64,
    /// The number of the first element outside the error bound, which is half a
    /// step of its shard plus the rounding of the dtype.
    pub beyond: Option<u64>,
}

/// Compares `restored`, the decoded bytes of a coded tensor, with `original`.
/// Both are little-endian and row-major.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the bytes do not have
/// the tensor's length, or for a raw tensor, which must equal its original.
pub fn errors(tensor: &IndexedTensor, original: &[u8], restored: &[u8]) -> Result<Errors> {
    let len = tensor.len_bytes();
    if [original, restored].iter().any(|b| b.len() as u64 != len) || tensor.shards().is_empty() {
        return Err(Error::invalid_input(
            "the tensor is not coded, or an input does not have its length",
        )
        .tensor(&tensor.name));
    }
    let mut errors = Errors {
        max: 0.0,
        beyond: None,
    };
    let width = super::element::width(tensor.dtype);
    for shard in tensor.shards() {
        let range = shard.elements.start * width..shard.elements.end * width;
        let before = numbers(tensor.dtype, part(original, range.clone()));
        let after = numbers(tensor.dtype, part(restored, range));
        let half = 0.5 / f64::from(shard.scale) * SLACK;
        for (at, (before, after)) in before.iter().zip(&after).enumerate() {
            let error = (before - after).abs();
            // The comparison is written so that NaN is outside every bound.
            let kept = error <= half + rounding(tensor.dtype, before.abs().max(after.abs()));
            if !kept && errors.beyond.is_none() {
                errors.beyond = Some(shard.elements.start + at as u64);
            }
            errors.max = errors.max.max(error);
        }
    }
    Ok(errors)
}

/// Returns the elements as doubles. Integers are included, because other
/// encoders code them.
fn numbers(dtype: Dtype, bytes: &[u8]) -> Vec<f64> {
    #[allow(clippy::cast_precision_loss)] // other encoders round integers to single precision first
    match dtype {
        Dtype::I8 => bytes.iter().map(|&e| e.cast_signed().into()).collect(),
        Dtype::I16 => each(bytes, |e| i16::from_le_bytes(e).into()),
        Dtype::I32 => each(bytes, |e| i32::from_le_bytes(e).into()),
        Dtype::I64 => each(bytes, |e| i64::from_le_bytes(e) as f64),
        _ => to_f64(dtype, bytes),
    }
}

/// Returns the largest error of rounding a number of this magnitude to the dtype.
/// Doubles are rounded to single precision.
fn rounding(dtype: Dtype, size: f64) -> f64 {
    let (fraction_bits, least_exponent) = match dtype {
        // Integers are truncated, not rounded.
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => return 1.0,
        Dtype::F16 => (10, -14),
        Dtype::Bf16 => (7, -126),
        _ => (23, -126),
    };
    let biased = i32::try_from(size.to_bits() >> 52).unwrap_or(2046);
    // The exponent of the decoded number may be one higher.
    let exponent = (biased - 1022).max(least_exponent).min(1023);
    power_of_two(exponent - fraction_bits - 1)
}
