//! The catalog entry of a tensor.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::BaseUse;
use crate::dtype::Dtype;
use crate::tensor::element_count;

/// One tensor of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct FileTensor {
    /// The name, unique within the file.
    pub name: String,
    /// The element type.
    pub dtype: Dtype,
    /// The shape, outermost dimension first. Empty for a scalar.
    pub shape: Vec<u64>,
    /// The range of the tensor in the original data buffer. For a zTensor or
    /// Gauss file, it refers to a virtual buffer that holds the decoded tensors
    /// back to back.
    pub span: Range<u64>,
    /// The range of the file to fetch. Empty if the tensor is copied from the
    /// base.
    pub stored: Range<u64>,
    /// How the tensor depends on the base's tensor of the same name, if it
    /// does.
    pub base: Option<BaseUse>,
    /// The number of the tensor with which this one shares its stored bytes, if
    /// it does. In files written by other programs that tensor may come later
    /// in the list.
    pub alias_of: Option<usize>,
}

impl FileTensor {
    /// Returns the length in bytes of the decoded tensor, which is
    /// little-endian and row-major.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.span.end - self.span.start
    }

    /// Returns the number of bytes stored for the tensor, including bytes
    /// shared with other tensors.
    #[must_use]
    pub fn stored_len_bytes(&self) -> u64 {
        self.stored.end - self.stored.start
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn element_count(&self) -> u64 {
        // Opening the file has checked that the number fits.
        element_count(&self.shape).unwrap_or(u64::MAX)
    }
}
