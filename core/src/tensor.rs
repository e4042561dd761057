//! A tensor as encoders take it.

use crate::dtype::Dtype;

/// The bytes of a tensor, and what is known of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorRef<'a> {
    /// The elements, little-endian and row-major.
    pub bytes: &'a [u8],
    /// Element type; `None` for bytes without a structure.
    pub dtype: Option<Dtype>,
    /// Shape, outermost dimension first; empty for a scalar, and where it is
    /// not known.
    pub shape: &'a [u64],
}

impl<'a> TensorRef<'a> {
    /// Describes a tensor of that type and shape. An encoder is guided by them
    /// and never relies on them.
    #[must_use]
    pub fn new(bytes: &'a [u8], dtype: Dtype, shape: &'a [u64]) -> Self {
        Self {
            bytes,
            dtype: Some(dtype),
            shape,
        }
    }

    /// Describes bytes of which only the type of their elements is known, or
    /// not even that.
    #[must_use]
    pub fn flat(bytes: &'a [u8], dtype: Option<Dtype>) -> Self {
        Self {
            bytes,
            dtype,
            shape: &[],
        }
    }

    /// Returns other bytes of the same type and shape.
    #[must_use]
    pub fn with_bytes<'b>(self, bytes: &'b [u8]) -> TensorRef<'b>
    where
        'a: 'b,
    {
        TensorRef { bytes, ..self }
    }
}
