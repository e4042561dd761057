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

/// Returns the number of elements of a tensor of this shape; `None` if 64 bits cannot
/// count them. A dimension of 0 makes it 0, however large the others are.
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
