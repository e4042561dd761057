//! Encodes tensors as a Gauss file (docs/formats/gauss.md 4), and reports how
//! each tensor compares with its original and with the error bound of the
//! format (docs/formats/gauss.md 5).

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::decode::{each, to_f64};
use super::encode_plan::{EncodePlan, GaussOptions, Route};
use super::encode_shard::{self, EncodedShard, Moments};
use super::index::IndexedTensor;
use super::record::{GaussWriter, WrittenTensor};
use crate::bytes::part;
use crate::dtype::Dtype;
use crate::engine::Engine;
use crate::float::power_of_two;
use crate::{Error, Result};

/// A tensor to encode.
#[derive(Debug, Clone, Copy)]
pub struct SourceTensor<'a> {
    /// The name, which must be unique within the file.
    pub name: &'a str,
    /// The element type.
    pub dtype: Dtype,
    /// The shape, outermost dimension first. Empty for a scalar.
    pub shape: &'a [u64],
    /// The bytes, little-endian and row-major.
    pub bytes: &'a [u8],
}

/// An encoded tensor.
#[derive(Debug, Clone, PartialEq)]
pub struct GaussTensor {
    /// The record of the index, for [`GaussWriter::add`].
    pub(super) entry: WrittenTensor,
    /// The data to write to the file; `None` for a raw tensor, whose own bytes
    /// are written.
    pub data: Option<Vec<u8>>,
    /// The report on the encoding.
    pub report: TensorReport,
}

/// Writes a file of `sources` to `sink`, piece by piece and in order. The
/// tensors are ordered by size, largest first, and the result is the same for
/// any number of threads.
pub fn encode<'a, E: Engine, X: From<Error>>(
    engine: &E,
    sources: &[SourceTensor<'a>],
    options: &GaussOptions,
    mut sink: impl FnMut(&[u8]) -> Result<(), X>,
) -> Result<Report, X> {
    options.check()?;
    let named = |source: &&SourceTensor<'a>| match &options.layers {
        Some(names) => names.iter().any(|name| name == source.name),
        None => true,
    };
    let mut plans = sources
        .iter()
        .filter(named)
        .map(|source| match EncodePlan::of(source, options) {
            Ok(plan) => Ok((*source, plan)),
            Err(error) => Err(error.tensor(source.name)),
        })
        .collect::<Result<Vec<_>>>()?;
    // The sort is stable, so tensors of equal size keep their order.
    plans.sort_by_key(|(_, plan)| Reverse(plan.element_count));

    // All shards of all tensors are encoded concurrently.
    let jobs = plans.iter().flat_map(|(source, plan)| {
        plan.shards(source.bytes)
            .map(move |part| (source.dtype, part))
    });
    let shards = engine.map(jobs.collect(), |(dtype, part)| {
        encode_shard::encode(dtype, part, encode_shard::scale(dtype, options), options)
    });
    let mut shards = shards.into_iter();
    let mut coded = Vec::new();
    let mut raw = Vec::new();
    for (source, plan) in plans {
        let own = shards.by_ref().take(plan.shard_count()).collect();
        let encoded = finish(&source, plan, own, options)?;
        match encoded.data {
            Some(_) => coded.push((encoded, source.bytes)),
            None => raw.push((encoded, source.bytes)),
        }
    }

    let mut writer = GaussWriter::new();
    let mut report = Report {
        len_bytes: 0,
        tensors: Vec::new(),
    };
    let all: Vec<(GaussTensor, &[u8])> = coded.into_iter().chain(raw).collect();
    for (encoded, _) in &all {
        writer.add(encoded)?;
    }
    let head = writer.finish()?;
    report.len_bytes += head.len() as u64;
    sink(&head)?;
    for (encoded, bytes) in all {
        let data = encoded.data.as_deref().unwrap_or(bytes);
        report.len_bytes += data.len() as u64;
        sink(data)?;
        report.tensors.push(encoded.report);
    }
    Ok(report)
}

/// Encodes one tensor.
pub fn encode_tensor<E: Engine>(
    engine: &E,
    source: &SourceTensor,
    options: &GaussOptions,
) -> Result<GaussTensor> {
    options.check()?;
    let plan = EncodePlan::of(source, options).map_err(|error| error.tensor(source.name))?;
    let scale = |dtype| encode_shard::scale(dtype, options);
    let shards = engine.map(plan.shards(source.bytes).collect(), |part| {
        encode_shard::encode(source.dtype, part, scale(source.dtype), options)
    });
    finish(source, plan, shards, options)
}

/// Assembles a tensor from its shards, or stores it raw.
fn finish(
    source: &SourceTensor,
    plan: EncodePlan,
    shards: Vec<Result<EncodedShard, RawReason>>,
    options: &GaussOptions,
) -> Result<GaussTensor> {
    let len_bytes = source.bytes.len() as u64;
    let coded = match plan.route {
        Route::Raw(reason) => Err(reason),
        Route::Coded { shard_rows, .. } => shards
            .into_iter()
            .collect::<Result<Vec<EncodedShard>, RawReason>>()
            .map(|shards| (shard_rows, shards)),
    };
    let coded = coded.and_then(|(shard_rows, shards)| {
        let stored: u64 = shards.iter().map(EncodedShard::len_bytes).sum();
        if stored >= len_bytes && !options.keep_larger {
            return Err(RawReason::Smaller);
        }
        Ok((shard_rows, shards, stored))
    });
    let mut report = TensorReport {
        name: source.name.into(),
        dtype: plan.dtype,
        element_count: plan.element_count,
        len_bytes,
        stored_len_bytes: len_bytes,
        max_error: 0.0,
        rms_error: 0.0,
        deviation: 0.0,
        raw: None,
        shards: Vec::new(),
    };
    let (entry, data) = match coded {
        Err(reason) => {
            report.raw = Some(reason);
            (WrittenTensor::raw(source, plan.dtype)?, None)
        }
        Ok((shard_rows, shards, stored)) => {
            report.stored_len_bytes = stored;
            report.shards = shards.iter().map(|shard| shard.report).collect();
            let errors = report.shards.iter().map(|shard| shard.max_error);
            report.max_error = errors.fold(0.0, f64::max);
            let squares: f64 = shards.iter().map(|shard| shard.squared_error).sum();
            #[allow(clippy::cast_precision_loss)] // the result is only displayed
            let mean = squares / plan.element_count as f64;
            report.rms_error = libm::sqrt(mean);
            let moments = shards.iter().map(|shard| shard.moments);
            report.deviation = moments.fold(Moments::default(), Moments::join).deviation();
            let entry = WrittenTensor::coded(source, shard_rows, &shards)?;
            (entry, Some(data(&shards)))
        }
    };
    Ok(GaussTensor {
        entry,
        data,
        report,
    })
}

fn data(shards: &[EncodedShard]) -> Vec<u8> {
    let words = shards.iter().map(EncodedShard::words).sum::<usize>();
    let mut data = Vec::with_capacity(4 * words);
    for shard in shards {
        for word in shard.index.iter().chain(&shard.residual) {
            data.extend_from_slice(&word.to_le_bytes());
        }
    }
    data
}

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
    /// The number of quantisation steps per unit.
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

/// The factor by which the error bound is widened, to allow for rounding in the
/// comparison itself.
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
    let width = super::decode::width(tensor.dtype);
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

/// Returns the elements as doubles. Integers are supported, because other
/// encoders do not store them raw.
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
    // One above the exponent of `size`, which doubles the bound of one rounding:
    // bfloat16 is rounded twice, first to single precision.
    let exponent = (biased - 1022).max(least_exponent).min(1023);
    power_of_two(exponent - fraction_bits - 1)
}
