//! To safetensors.

use std::ops::Range;
use std::path::Path;

use zstn_core::catalog::Kind;
use zstn_core::container::safetensors::{self, Tensor};

use super::Written;
use super::job::Job;
use super::shards::{self, Naming};
use crate::{Result, unpack_map};

pub fn write(job: &Job) -> Result<Written> {
    if let Some(naming) = Naming::of_index(job.output)? {
        return shards::write(job, &naming, |plan, path| {
            plan.write(job, path)?;
            Ok(plan.len_bytes())
        });
    }
    if let Some(packed) = job.whole(Kind::Zstn)? {
        // The original file, to the last blank of its header.
        let progress = job.options.progress;
        let report = unpack_map(job.engine, &packed, job.create(job.output)?, progress)?;
        return Ok(Written::file(job, report.original_bytes));
    }
    let plan = Plan::new(job, 0..job.tensors().len())?;
    job.options.progress.begin(job.tensors_len_bytes());
    plan.write(job, job.output)?;
    Ok(Written::file(job, plan.len_bytes()))
}

/// A file that can hold what it is to hold.
pub struct Plan {
    pub tensors: Range<usize>,
    head: Vec<u8>,
    data_len_bytes: u64,
}

impl Plan {
    /// A file of some of the tensors, with the metadata of all.
    pub fn new(job: &Job, tensors: Range<usize>) -> Result<Self> {
        let mut end = 0u64;
        let entries: Vec<Tensor> = job.tensors()[tensors.clone()]
            .iter()
            .map(|tensor| {
                let start = end;
                end = end.saturating_add(tensor.len_bytes());
                Tensor {
                    name: tensor.name.clone(),
                    dtype: tensor.dtype,
                    shape: tensor.shape.clone(),
                    span: start..end,
                }
            })
            .collect();
        let head = safetensors::head(job.reader.metadata(), &entries).map_err(job.refuse())?;
        Ok(Self {
            tensors,
            head,
            data_len_bytes: end,
        })
    }

    pub fn len_bytes(&self) -> u64 {
        self.head.len() as u64 + self.data_len_bytes
    }

    /// Writes the file at `path`.
    pub fn write(&self, job: &Job, path: &Path) -> Result<()> {
        let mut output = job.create(path)?;
        output.write(&self.head)?;
        let numbers: Vec<usize> = self.tensors.clone().collect();
        job.each(
            &numbers,
            |_, tensor| Ok(tensor.bytes),
            |_, bytes| output.write(&bytes),
        )?;
        output.finish()
    }
}
