//! Writes dense tensors in the two sparse formats
//! (docs/formats/compressed-tensors.md 3 and 4).

use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};

use serde_json::json;

use super::WeightFormat;
use super::bitmask::{SparsityMask, row_offsets};
use super::checkpoint::{TensorSpec, View};
use crate::bytes::index;
use crate::dtype::Dtype;
use crate::tensor::element_count;
use crate::{Error, Result, Rule};

/// The release of the package whose names and shapes are written.
const RELEASE: &str = "0.13.0";

/// The dtypes that the package is known to accept.
const DTYPES: [Dtype; 5] = [
    Dtype::F32,
    Dtype::F16,
    Dtype::Bf16,
    Dtype::I8,
    Dtype::F8E4M3,
];

/// The approximate number of bytes that a tensor takes in a safetensors header
/// in addition to its name.
const HEADER_ENTRY_BYTES: u64 = 64;

/// A stored tensor with its bytes.
pub type StoredBytes = (TensorSpec, Vec<u8>);

/// Encodes the stored tensors of a sparse checkpoint, one dense tensor at a
/// time. Their names begin with the name of the module
/// (docs/formats/compressed-tensors.md 2).
///
/// Only tensors called `….weight` with the dtypes F32, F16, BF16, I8 and
/// F8_E4M3 become sparse, and only if that makes them smaller. The encoding is
/// lossless: negative zeros, which the package would drop, are stored as
/// values, and a matrix that is not 2:4 sparse stays dense.
#[derive(Debug, Clone)]
pub struct SparseWriter {
    format: WeightFormat,
    /// All names written so far, which must be distinct.
    names: BTreeSet<String>,
    modules: Vec<String>,
    elements: u64,
    zeros: u64,
}

impl SparseWriter {
    /// Creates a writer for [`WeightFormat::SparseBitmask`] or
    /// [`WeightFormat::Sparse24Bitmask`].
    pub fn new(format: WeightFormat) -> Result<Self> {
        if !format.is_sparse() {
            return Err(Error::invalid_input(format!(
                "`{}` is not a sparse format",
                format.name()
            )));
        }
        Ok(Self {
            format,
            names: BTreeSet::new(),
            modules: Vec::new(),
            elements: 0,
            zeros: 0,
        })
    }

    /// Returns the stored tensors that represent `dense`, or `None` if it is to
    /// be stored uncompressed.
    ///
    /// # Errors
    /// A tensor whose name would be taken for a part of another one.
    pub fn write(&mut self, dense: &TensorSpec, bytes: &[u8]) -> Result<Option<Vec<StoredBytes>>> {
        View::new(dense, bytes)?;
        if [".bitmask", ".compressed"]
            .iter()
            .any(|part| dense.name.ends_with(part))
        {
            return Err(taken(&dense.name));
        }
        let Some((module, mask)) = self.mask(dense, bytes) else {
            self.register(&dense.name)?;
            return Ok(None);
        };
        let parts = self.parts(dense, module, bytes, &mask)?;
        if !pays(dense, &parts) {
            self.register(&dense.name)?;
            return Ok(None);
        }
        for (part, _) in &parts {
            self.register(&part.name)?;
        }
        let elements = (bytes.len() / width(dense)) as u64;
        self.elements += elements;
        self.zeros += elements - (mask.count - mask.filled);
        self.modules.push(module.into());
        Ok(Some(parts))
    }

    /// Returns the value of the key `quantization_config` for `config.json`, as
    /// JSON text.
    #[must_use]
    pub fn quantization_config(&self) -> String {
        let structure = match self.format {
            WeightFormat::Sparse24Bitmask => "2:4",
            _ => "unstructured",
        };
        json!({
            "quant_method": "compressed-tensors",
            "version": RELEASE,
            "sparsity_config": {
                "format": self.format.name(),
                "global_sparsity": self.zeros as f64 / self.elements.max(1) as f64,
                "ignore": [],
                "registry_requires_subclass": false,
                "sparsity_structure": structure,
                "targets": self.modules,
            },
            "transform_config": {},
        })
        .to_string()
    }

    fn register(&mut self, name: &str) -> Result<()> {
        if self.names.insert(name.into()) {
            return Ok(());
        }
        Err(taken(name))
    }

    /// Returns the module and the mask of a tensor, if it can be sparse at all.
    fn mask<'a>(&self, dense: &'a TensorSpec, bytes: &[u8]) -> Option<(&'a str, SparsityMask)> {
        let module = dense.name.strip_suffix(".weight")?;
        // A reader would take such a prefix for the full name of a tensor.
        if module.ends_with(".weight") || module.ends_with(".bias") {
            return None;
        }
        if !DTYPES.contains(&dense.dtype) || bytes.is_empty() {
            return None;
        }
        let columns = usize::try_from(*dense.shape.last()?).ok()?;
        let two_of_four = self.format == WeightFormat::Sparse24Bitmask;
        if two_of_four && !(dense.shape.len() == 2 && columns.is_multiple_of(4)) {
            return None;
        }
        SparsityMask::new(bytes, columns, width(dense), two_of_four).map(|mask| (module, mask))
    }

    fn parts(
        &self,
        dense: &TensorSpec,
        module: &str,
        bytes: &[u8],
        mask: &SparsityMask,
    ) -> Result<Vec<StoredBytes>> {
        let part = |name: &str, dtype, shape, bytes| {
            let name = format!("{module}.{name}");
            (TensorSpec { name, dtype, shape }, bytes)
        };
        let (columns, rows) = match dense.shape.split_last() {
            Some((&columns, rows)) => (columns, rows),
            None => return Err(Error::invalid_input("a scalar cannot be sparse")),
        };
        let mut mask_shape = rows.to_vec();
        mask_shape.push(columns.div_ceil(8));
        let values = mask.values(bytes, index(columns), width(dense));
        let rank = dense.shape.len() as u64;
        let two_of_four = self.format == WeightFormat::Sparse24Bitmask;
        let shape = if two_of_four {
            vec![rank, 1]
        } else {
            vec![rank]
        };
        let value_shape = match two_of_four {
            true => vec![element_count(rows).unwrap_or(u64::MAX), columns / 2],
            false => vec![mask.count],
        };
        let mut parts = vec![
            part(
                "shape",
                Dtype::I64,
                shape,
                integers(dense.shape.iter().copied()),
            ),
            part("compressed", dense.dtype, value_shape, values),
            part("bitmask", Dtype::U8, mask_shape, mask.bits.clone()),
        ];
        if !two_of_four {
            let offsets = integers(row_offsets(rows, &mask.offsets, mask.count));
            parts.push(part("row_offsets", Dtype::I64, rows.to_vec(), offsets));
        }
        Ok(parts)
    }
}

fn taken(name: &str) -> Error {
    Error::malformed(
        Rule::CompressedTensorsName,
        "the name is used by a part of another tensor, or would be read as such a part",
    )
    .tensor(name)
}

fn width(dense: &TensorSpec) -> usize {
    dense.dtype.len_bytes().unwrap_or(1)
}

fn integers(values: impl IntoIterator<Item = u64>) -> Vec<u8> {
    values.into_iter().flat_map(u64::to_le_bytes).collect()
}

/// Returns whether the parts take less space than the dense tensor, including
/// their header entries.
fn pays(dense: &TensorSpec, parts: &[StoredBytes]) -> bool {
    let cost = |stored: &TensorSpec| stored.name.len() as u64 + HEADER_ENTRY_BYTES;
    let parts = parts
        .iter()
        .map(|(part, bytes)| cost(part) + bytes.len() as u64);
    dense
        .len_bytes()
        .is_ok_and(|len| parts.sum::<u64>() < cost(dense) + len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_be_read_as_parts_are_refused() {
        let mut writer = SparseWriter::new(WeightFormat::SparseBitmask).unwrap();
        let mut write = |name: &str| {
            let dense = TensorSpec {
                name: name.into(),
                dtype: Dtype::F32,
                shape: vec![1024],
            };
            writer.write(&dense, &[0; 4096])
        };
        assert!(write("a.shape").unwrap().is_none());
        for name in ["b.bitmask", "b.compressed", "a.shape", "a.weight"] {
            assert_eq!(
                write(name).unwrap_err().rule(),
                Some(Rule::CompressedTensorsName),
                "{name}"
            );
        }
        assert_eq!(write("c.weight").unwrap().unwrap().len(), 4);
        assert!(SparseWriter::new(WeightFormat::PackQuantized).is_err());
    }
}
