//! A borrowed tensor, the input of every encoder.

use crate::dtype::Dtype;

/// The bytes of a tensor, with its dtype and shape if they are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorRef<'a> {
    /// The elements, little-endian and row-major.
    pub bytes: &'a [u8],
    /// The element type, or `None` for bytes without a structure.
    pub dtype: Option<Dtype>,
    /// The shape, outermost dimension first. Empty for a scalar and for an
    /// unknown shape.
    pub shape: &'a [u64],
    /// The length in bytes of the blocks that the bytes consist of, if they are
    /// blocks of quantised elements. Encoders then take each byte of a block
    /// apart from the others.
    pub block_bytes: Option<u8>,
}

/// Returns the number of elements of a tensor of this shape, or `None` if it
/// does not fit in 64 bits. With a dimension of 0 it is 0, however large the
/// other dimensions are.
#[must_use]
pub fn element_count(shape: &[u64]) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape
        .iter()
        .try_fold(1u64, |product, &dimension| product.checked_mul(dimension))
}

impl<'a> TensorRef<'a> {
    /// Creates a tensor of the given dtype and shape. Encoders use them as
    /// hints and produce a decodable frame even if they are wrong.
    #[must_use]
    pub fn new(bytes: &'a [u8], dtype: Dtype, shape: &'a [u64]) -> Self {
        Self {
            bytes,
            dtype: Some(dtype),
            shape,
            block_bytes: None,
        }
    }

    /// Creates a tensor of unknown shape, and of unknown dtype if `dtype` is
    /// `None`.
    #[must_use]
    pub fn flat(bytes: &'a [u8], dtype: Option<Dtype>) -> Self {
        Self {
            bytes,
            dtype,
            shape: &[],
            block_bytes: None,
        }
    }

    /// Creates a tensor of blocks of `block_bytes` bytes each, such as the blocks of
    /// quantised elements in a GGUF file.
    #[must_use]
    pub fn blocks(bytes: &'a [u8], block_bytes: u8) -> Self {
        Self {
            bytes,
            dtype: None,
            shape: &[],
            block_bytes: Some(block_bytes).filter(|bytes| *bytes > 0),
        }
    }

    /// Replaces the bytes and leaves dtype and shape as they are.
    #[must_use]
    pub fn with_bytes<'b>(self, bytes: &'b [u8]) -> TensorRef<'b>
    where
        'a: 'b,
    {
        TensorRef { bytes, ..self }
    }

    /// Replaces the shape and leaves the dtype as it is.
    #[must_use]
    pub fn with_shape<'b>(self, shape: &'b [u64]) -> TensorRef<'b>
    where
        'a: 'b,
    {
        TensorRef { shape, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_counted_in_any_order_of_dimensions() {
        const HUGE: u64 = 1 << 40;
        assert_eq!(element_count(&[]), Some(1));
        assert_eq!(element_count(&[3, 5]), Some(15));
        assert_eq!(element_count(&[HUGE, HUGE]), None);
        for shape in [[HUGE, HUGE, 0], [0, HUGE, HUGE], [HUGE, 0, HUGE]] {
            assert_eq!(element_count(&shape), Some(0));
        }
    }
}
