//! Writes Gauss files, which are lossy.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use zstn_core::container::foreign::gauss::{
    self, GaussOptions, GaussTensor, GaussWriter, SourceTensor, TensorReport, shard_count,
};

use super::conversion::Conversion;
use super::{Detail, Written};
use crate::output::Staging;
use crate::source::Source as _;
use crate::{Error, Output, Progress as _, Result};

/// The amount of work of a conversion to Gauss, as far as the names, dtypes and shapes
/// of the tensors determine it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GaussPlan {
    /// The number of tensors to code. Some may be stored raw in the end, if coding does
    /// not make them smaller.
    pub coded: usize,
    /// The number of these tensors that have more than one shard.
    pub sharded: usize,
    /// The total number of shards of these tensors.
    pub shards: usize,
    /// The number of tensors that are stored raw.
    pub raw: usize,
}

/// Watches the coding of tensors; the implementation for `()` ignores all calls.
pub trait GaussWatch: Sync {
    /// Called when the work begins.
    fn begin(&self, plan: GaussPlan);
    /// Called from any thread after a tensor was coded, with the time that this took.
    fn done(&self, report: &TensorReport, time: Duration);
}

impl GaussWatch for () {
    fn begin(&self, _: GaussPlan) {}
    fn done(&self, _: &TensorReport, _: Duration) {}
}

pub fn write(conversion: &Conversion, options: &GaussOptions) -> Result<Written> {
    let refuse = conversion.refuse();
    let tensors = conversion.tensors();
    let numbers = chosen(conversion, options)?;
    let mut plan = GaussPlan::default();
    for &number in &numbers {
        let tensor = &tensors[number];
        let count = shard_count(&tensor.name, tensor.dtype, &tensor.shape, options);
        let count = count.map_err(&refuse)?;
        plan.shards += count;
        plan.coded += usize::from(count > 0);
        plan.sharded += usize::from(count > 1);
        plan.raw += usize::from(count == 0);
    }
    let lens = numbers.iter().map(|&number| tensors[number].len_bytes());
    conversion.job.begin(lens.sum());
    conversion.options.gauss.begin(plan);

    // The index precedes the data, but is only known at the end.
    let staging = Staging::beside(conversion.output)?;
    let mut coded = Spool::create(&staging, "coded")?;
    let mut raw = Spool::create(&staging, "raw")?;
    let mut writer = GaussWriter::new();
    conversion.each(
        &numbers,
        |_, tensor| {
            let started = Instant::now();
            let source = SourceTensor {
                name: &tensor.name,
                dtype: tensor.dtype,
                shape: &tensor.shape,
                bytes: &tensor.bytes,
            };
            let mut encoded =
                gauss::encode_tensor(&conversion.job.engine, &source, options).map_err(&refuse)?;
            conversion
                .options
                .gauss
                .done(&encoded.report, started.elapsed());
            let is_coded = encoded.data.is_some();
            let data = encoded.data.take().unwrap_or(tensor.bytes);
            Ok((is_coded, data, encoded))
        },
        |_, (is_coded, data, encoded): (bool, Vec<u8>, GaussTensor)| {
            writer.add(&encoded).map_err(&refuse)?;
            let spool = if is_coded { &mut coded } else { &mut raw };
            spool.add(&data, encoded.report)
        },
    )?;
    let head = writer.finish().map_err(&refuse)?;
    let mut output = conversion.create(conversion.output)?;
    output.write(&head)?;
    let mut len_bytes = head.len() as u64;
    let mut reports = Vec::new();
    for spool in [coded, raw] {
        len_bytes += spool.copy(&mut output)?;
        reports.extend(spool.reports);
    }
    output.complete(&conversion.job)?;
    Ok(Written {
        detail: Detail::Gauss(reports),
        ..Written::file(conversion, len_bytes)
    })
}

/// Returns the numbers of the tensors to store, largest first. Tensors with the same
/// number of elements keep their order.
fn chosen(conversion: &Conversion, options: &GaussOptions) -> Result<Vec<usize>> {
    let tensors = conversion.tensors();
    let mut numbers: Vec<usize> = (0..tensors.len()).collect();
    if let Some(names) = &options.layers {
        let is_there = |name: &String| tensors.iter().any(|tensor| tensor.name == *name);
        if let Some(name) = names.iter().find(|name| !is_there(name)) {
            return Err(Error::place(conversion.input)(zstn_core::Error::not_found(
                name,
            )));
        }
        numbers.retain(|&number| names.contains(&tensors[number].name));
    }
    numbers.sort_by_key(|&number| Reverse(tensors[number].element_count()));
    Ok(numbers)
}

/// A temporary file for data that are later copied into the output.
struct Spool {
    output: Output<'static>,
    reports: Vec<TensorReport>,
}

impl Spool {
    fn create(staging: &Staging, name: &str) -> Result<Self> {
        Ok(Self {
            output: Output::create(&staging.path(name))?,
            reports: Vec::new(),
        })
    }

    fn add(&mut self, data: &[u8], report: TensorReport) -> Result<()> {
        self.reports.push(report);
        self.output.write(data)
    }

    fn copy(&self, output: &mut Output) -> Result<u64> {
        let streams = self.output.written()?;
        output.write_part(&streams, 0..streams.len_bytes())?;
        Ok(streams.len_bytes())
    }
}
