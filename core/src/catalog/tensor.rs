//! One tensor of a file.

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
    /// Name.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Shape, outermost dimension first; empty for a scalar.
    pub shape: Vec<u64>,
    /// Range in the original data buffer; for a zTensor or Gauss file, in a
    /// buffer that holds its tensors back to back.
    pub span: Range<u64>,
    /// Range of the file to fetch; empty for a copy of the base's tensor.
    pub stored: Range<u64>,
    /// What the base's tensor with the same name is needed for, if it is
    /// needed.
    pub base: Option<BaseUse>,
    /// Number of the tensor with the same bytes, whose stored bytes this one
    /// shares. Files of other programs may have it later in the list.
    pub alias_of: Option<usize>,
}

impl FileTensor {
    /// Returns the length of the decoded tensor, which is little-endian and
    /// row-major.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.span.end - self.span.start
    }

    /// Returns the number of bytes that the tensor takes in the file, including
    /// bytes shared with other tensors.
    #[must_use]
    pub fn stored_len_bytes(&self) -> u64 {
        self.stored.end - self.stored.start
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn element_count(&self) -> u64 {
        // The header has been checked.
        element_count(&self.shape).unwrap_or(u64::MAX)
    }
}
