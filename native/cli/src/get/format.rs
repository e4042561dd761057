//! The file formats that `zstn get` writes.

use std::collections::BTreeMap;
use std::path::Path;

use zstn::internals::Output;
use zstn::{Error, Result, Tensor};
use zstn_core::container::safetensors;
use zstn_core::dtype::Dtype;

use super::super::elements;

/// A file format that `zstn get` can write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The bytes without a header.
    Raw,
    Npy,
    Safetensors,
}

impl Format {
    /// Returns the format for the extension of `path`. Without an extension, it is raw
    /// bytes.
    pub fn of(path: &Path) -> Result<Self> {
        let Some(extension) = path.extension() else {
            return Ok(Self::Raw);
        };
        match &*extension.to_string_lossy().to_ascii_lowercase() {
            "bin" | "raw" => Ok(Self::Raw),
            "npy" => Ok(Self::Npy),
            "safetensors" => Ok(Self::Safetensors),
            _ => Err(Error::Usage(format!(
                "cannot write .{} files: end the name in .npy or .safetensors, or in .bin, .raw \
                 or nothing for the raw bytes",
                extension.display()
            ))),
        }
    }

    /// Refuses a dtype that the format cannot store.
    pub fn check(self, dtype: Dtype) -> Result<()> {
        if self == Self::Npy && dtype != Dtype::Bf16 && elements::numpy_name(dtype).is_none() {
            return Err(Error::Usage(format!(
                "NumPy has no dtype for {dtype}; write .bin or .safetensors instead"
            )));
        }
        Ok(())
    }

    /// Returns a note if elements are converted when they are written.
    pub fn note(self, dtype: Dtype) -> Option<&'static str> {
        match (self, dtype) {
            (Self::Npy, Dtype::Bf16) => Some("NumPy has no BF16; written as float32"),
            _ => None,
        }
    }

    /// Refuses to write several tensors into a format that stores only one.
    pub fn check_several(self) -> Result<()> {
        match self {
            Self::Safetensors => Ok(()),
            _ => Err(Error::Usage(
                "several tensors go into a .safetensors file: name one with -o".into(),
            )),
        }
    }

    /// Writes a file that contains only `tensor`.
    pub fn write(self, tensor: &Tensor, mut output: Output) -> Result<()> {
        match self {
            Self::Raw => output.write(&tensor.bytes)?,
            Self::Npy if tensor.dtype == Dtype::Bf16 => {
                output.write(&npy_head("<f4", &tensor.shape))?;
                output.write(&elements::widened(&tensor.bytes))?;
            }
            Self::Npy => {
                self.check(tensor.dtype)?;
                let name = elements::numpy_name(tensor.dtype).unwrap_or_default();
                output.write(&npy_head(name, &tensor.shape))?;
                output.write(&tensor.bytes)?;
            }
            Self::Safetensors => {
                let stored = safetensors::HeaderTensor {
                    name: tensor.name.clone(),
                    dtype: tensor.dtype,
                    shape: tensor.shape.clone(),
                    span: 0..tensor.bytes.len() as u64,
                };
                output.write(&safetensors::head(&BTreeMap::new(), &[stored])?)?;
                output.write(&tensor.bytes)?;
            }
        }
        output.finish()
    }
}

/// Writes a safetensors file of several tensors. `read` is called with the index of
/// each tensor, in order.
pub fn write_several(
    tensors: &[Described],
    mut output: Output,
    mut read: impl FnMut(usize) -> Result<Tensor>,
) -> Result<()> {
    let mut end = 0;
    let stored: Vec<_> = tensors
        .iter()
        .map(|tensor| {
            let start = end;
            end += tensor.len_bytes;
            safetensors::HeaderTensor {
                name: tensor.name.clone(),
                dtype: tensor.dtype,
                shape: tensor.shape.clone(),
                span: start..end,
            }
        })
        .collect();
    output.write(&safetensors::head(&BTreeMap::new(), &stored)?)?;
    for number in 0..tensors.len() {
        output.write(&read(number)?.bytes)?;
    }
    output.finish()
}

/// The properties of a tensor that are known before it is read.
pub struct Described {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<u64>,
    pub len_bytes: u64,
}

/// Returns the header of a NumPy file.
fn npy_head(dtype: &str, shape: &[u64]) -> Vec<u8> {
    let shape: String = shape.iter().map(|d| format!("{d}, ")).collect();
    let mut dict = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({shape}), }}");
    // Version 2.0: six bytes of magic, two of version, four of length. The data begins
    // at a multiple of 64.
    let padding = (64 - (12 + dict.len() + 1) % 64) % 64;
    dict.extend(std::iter::repeat_n(' ', padding));
    dict.push('\n');
    let mut head = b"\x93NUMPY\x02\x00".to_vec();
    head.extend(u32::try_from(dict.len()).unwrap_or(u32::MAX).to_le_bytes());
    head.extend(dict.as_bytes());
    head
}
