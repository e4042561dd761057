//! The elements of a tensor in its storage (docs/formats/pytorch.md 3).

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::super::element_coding::ElementCoding;
use super::super::strided::gather;
use crate::bytes::index;
use crate::dtype::Dtype;
use crate::limits::{SPARSE_BYTES_PER_BYTE, SPARSE_FREE_BYTES};
use crate::{Error, Result, Rule};

/// The order of the stored elements of a tensor and of their bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// The order of the bytes of an element.
    pub coding: ElementCoding,
    /// The distance between neighbours along each dimension, in elements; `None` if
    /// the elements are stored in row-major order.
    pub strides: Option<Vec<u64>>,
}

/// Where the elements of a tensor are.
pub(super) struct Extent {
    /// The range of the storage from the first to the last element, in bytes.
    pub range: Range<u64>,
    pub strides: Option<Vec<u64>>,
}

fn refuse(detail: impl Into<Cow<'static, str>>) -> Error {
    Error::malformed(Rule::PyTorchExtent, detail)
}

impl Extent {
    /// Computes the place of a tensor whose first element is at `offset`, in elements
    /// of `width` bytes, in a storage of `storage_len_bytes`.
    ///
    /// # Errors
    /// [`Rule::PyTorchExtent`] if the tensor leaves its storage or has over 2^63 − 1
    /// bytes.
    pub fn new(
        shape: &[u64],
        strides: &[u64],
        offset: u64,
        width: u64,
        storage_len_bytes: u64,
    ) -> Result<Self> {
        // A dimension of 0 does not excuse the others.
        let len_bytes = shape
            .iter()
            .try_fold(width, |product, &size| product.checked_mul(size.max(1)))
            .filter(|len_bytes| i64::try_from(*len_bytes).is_ok());
        let Some(len_bytes) = len_bytes else {
            return Err(refuse(format!("its shape {shape:?} is too large")));
        };
        if shape.contains(&0) {
            return Ok(Self {
                range: 0..0,
                strides: None,
            });
        }
        let last = shape
            .iter()
            .zip(strides)
            .try_fold(offset, |last, (size, stride)| {
                last.checked_add(stride.checked_mul(size - 1)?)
            });
        let end = last.and_then(|last| last.checked_add(1)?.checked_mul(width));
        let end = end.filter(|end| *end <= storage_len_bytes);
        let Some(end) = end else {
            let detail = format!("it leaves its storage, which has {storage_len_bytes} bytes");
            return Err(refuse(detail));
        };
        let range = offset * width..end;
        let stored_bytes = range.end - range.start;
        let is_row_major = is_row_major(shape, strides);
        let allowed = stored_bytes
            .saturating_mul(SPARSE_BYTES_PER_BYTE)
            .max(SPARSE_FREE_BYTES);
        if len_bytes > allowed {
            return Err(Error::limit(format!(
                "it repeats {stored_bytes} stored bytes to {len_bytes}, which is not read. Save \
                 the tensor before it is expanded"
            )));
        }
        Ok(Self {
            range,
            strides: (!is_row_major).then(|| strides.to_vec()),
        })
    }
}

fn is_row_major(shape: &[u64], strides: &[u64]) -> bool {
    let mut expected = 1u64;
    shape.iter().zip(strides).rev().all(|(&size, &stride)| {
        let is_expected = size == 1 || stride == expected;
        expected = expected.saturating_mul(size);
        is_expected
    })
}

impl Layout {
    /// Creates the layout of elements of `dtype`.
    pub(super) fn new(dtype: Dtype, is_big_endian: bool, strides: Option<Vec<u64>>) -> Self {
        let width = match dtype {
            // Each half of a complex number is swapped by itself.
            Dtype::C64 => 4,
            dtype => dtype.bits() / 8,
        };
        let coding = match is_big_endian && width > 1 {
            true => ElementCoding::Swapped(width),
            false => ElementCoding::Plain,
        };
        Self { coding, strides }
    }

    /// Decodes stored elements to little-endian, row-major values. Values that are
    /// stored so are borrowed.
    pub(crate) fn decode<'a>(
        &self,
        dtype: Dtype,
        shape: &[u64],
        stored: &'a [u8],
    ) -> Result<Cow<'a, [u8]>> {
        let decoded = self.coding.decode(stored)?;
        match &self.strides {
            None => Ok(decoded),
            Some(strides) => {
                let width = index(dtype.bits() / 8);
                gather(&decoded, shape, strides, width).map(Cow::Owned)
            }
        }
    }
}
