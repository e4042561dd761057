//! The description of a stored tensor.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::container::safetensors::Tensor;
use crate::dtype::Dtype;
use crate::tensor::element_count;
use crate::{Error, Result, Rule};

/// The name, dtype and shape of a tensor, without its location: the tensors of
/// a model may be spread over several files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// The name in the safetensors header.
    pub name: String,
    /// The element type.
    pub dtype: Dtype,
    /// The shape, outermost dimension first. Empty for a scalar.
    pub shape: Vec<u64>,
}

impl Stored {
    /// Returns the length of the tensor in bytes; an error if it exceeds 64
    /// bits or the elements do not fill whole bytes.
    pub fn len_bytes(&self) -> Result<u64> {
        len_bits(self.dtype, &self.shape)
            .filter(|bits| bits % 8 == 0)
            .map(|bits| bits / 8)
            .ok_or_else(|| {
                Error::malformed(
                    Rule::CompressedTensorsShape,
                    format!(
                        "shape {:?} of {} is not a whole number of bytes, or exceeds 64 bits",
                        self.shape, self.dtype
                    ),
                )
                .tensor(&self.name)
            })
    }
}

fn len_bits(dtype: Dtype, shape: &[u64]) -> Option<u64> {
    element_count(shape)?.checked_mul(dtype.bits())
}

impl From<&Tensor> for Stored {
    fn from(tensor: &Tensor) -> Self {
        Self {
            name: tensor.name.clone(),
            dtype: tensor.dtype,
            shape: tensor.shape.clone(),
        }
    }
}
