//! Writes safetensors files.

use std::ops::Range;
use std::path::Path;

use zstn_core::catalog::Kind;
use zstn_core::container::safetensors::{self, HeaderTensor};

use super::Written;
use super::conversion::Conversion;
use super::shards::{self, Naming};
use crate::Result;
use crate::unpack::unpack_file;

pub fn write(conversion: &Conversion) -> Result<Written> {
    if let Some(naming) = Naming::of_index(conversion.output)? {
        return shards::write(conversion, &naming, |plan, path, conversion| {
            plan.write(conversion, path)?;
            Ok(plan.len_bytes())
        });
    }
    if let Some(packed) = conversion.local(Kind::Zstn)? {
        // This restores the original file, including the spaces in its header.
        let output = conversion.create(conversion.output)?;
        let progress = conversion.progress;
        let report = unpack_file(conversion.engine, &packed, output, u64::MAX, progress)?;
        return Ok(Written::file(conversion, report.original_bytes));
    }
    let plan = Plan::new(conversion, 0..conversion.tensors().len())?;
    conversion.progress.begin(conversion.tensor_bytes());
    plan.write(conversion, conversion.output)?;
    Ok(Written::file(conversion, plan.len_bytes()))
}

/// The plan for a safetensors file whose header has already been made.
pub struct Plan {
    pub tensors: Range<usize>,
    head: Vec<u8>,
    data_len_bytes: u64,
}

impl Plan {
    /// Plans a file with some of the tensors and with the metadata of the whole
    /// checkpoint.
    pub fn new(conversion: &Conversion, tensors: Range<usize>) -> Result<Self> {
        let mut end = 0u64;
        let entries: Vec<HeaderTensor> = conversion.tensors()[tensors.clone()]
            .iter()
            .map(|tensor| {
                let start = end;
                end = end.saturating_add(tensor.len_bytes());
                HeaderTensor {
                    name: tensor.name.clone(),
                    dtype: tensor.dtype,
                    shape: tensor.shape.clone(),
                    span: start..end,
                }
            })
            .collect();
        let head = safetensors::head(conversion.reader.metadata(), &entries)
            .map_err(conversion.refuse())?;
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
    pub fn write(&self, conversion: &Conversion, path: &Path) -> Result<()> {
        let mut output = conversion.create(path)?;
        output.write(&self.head)?;
        let numbers: Vec<usize> = self.tensors.clone().collect();
        conversion.each(
            &numbers,
            |_, tensor| Ok(tensor.bytes),
            |_, bytes| output.write(&bytes),
        )?;
        output.complete(conversion.progress).map(drop)
    }
}
