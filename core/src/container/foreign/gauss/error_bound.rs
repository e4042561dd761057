//! Compares a coded tensor with its original and with the error bound of the
//! format (docs/formats/gauss.md 5).

use alloc::vec::Vec;

use super::index::Tensor;
use super::value::{each, to_f64};
use crate::bytes::part;
use crate::dtype::Dtype;
use crate::float::power_of_two;
use crate::{Error, Result};

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
pub fn errors(tensor: &Tensor, original: &[u8], restored: &[u8]) -> Result<Errors> {
    let len = tensor.len_bytes();
    if [original, restored].iter().any(|b| b.len() as u64 != len) || tensor.shards().is_empty() {
        return Err(
            Error::invalid_input("these are not two versions of a coded tensor")
                .tensor(&tensor.name),
        );
    }
    let mut errors = Errors {
        max: 0.0,
        beyond: None,
    };
    let width = super::dtypes::width(tensor.dtype);
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
    // The decoded number may be one binade higher.
    let exponent = (biased - 1022).max(least_exponent).min(1023);
    power_of_two(exponent - fraction_bits - 1)
}
