//! One tensor as the file tells of it.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::BaseUse;
use crate::dtype::Dtype;

/// One tensor of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tensor {
    /// Name.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Shape, outermost dimension first; empty for a scalar.
    pub shape: Vec<u64>,
    /// Bytes of the original data buffer; in a zTensor or Gauss file, of one
    /// with its tensors back to back.
    pub span: Range<u64>,
    /// Bytes of the file to fetch for it; none for a copy of the base's.
    pub stored: Range<u64>,
    /// What the base's tensor of the same name is needed for, if it is.
    pub base: Option<BaseUse>,
    /// Number of the earlier tensor that owns the stored bytes, if tied.
    pub alias_of: Option<usize>,
}

impl Tensor {
    /// Bytes of the tensor itself, little-endian and row-major.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.span.end - self.span.start
    }

    /// Bytes it takes in the file, shared ones included.
    #[must_use]
    pub fn stored_len_bytes(&self) -> u64 {
        self.stored.end - self.stored.start
    }

    /// Number of elements.
    #[must_use]
    pub fn element_count(&self) -> u64 {
        // The header's check has shown that this cannot overflow.
        self.shape.iter().product()
    }
}
