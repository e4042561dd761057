//! Encodes tensors as a Gauss file (docs/formats/gauss.md 4).

use alloc::vec::Vec;
use core::cmp::Reverse;

use super::encode_shard::{self, EncodedShard, Moments};
use super::plan::{EncodePlan, GaussOptions, Route};
use super::record::{GaussWriter, WrittenTensor};
use super::report::{RawReason, Report, TensorReport};
use crate::dtype::Dtype;
use crate::engine::Engine;
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
