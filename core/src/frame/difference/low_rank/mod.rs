//! Low-rank prediction: elements are predicted as the base plus the product of
//! two thin matrices, which is how a merged adapter changes them
//! (docs/formats/zxd1.md 13).
//!
//! The factors are integers, and their product is exact. Predicting an element
//! takes one addition in double precision and one or two roundings, with the
//! same result on every platform.

mod factors;
mod fit;
mod head;
mod predict;

use alloc::vec::Vec;
use core::ops::Range;

pub use fit::fit;
pub use head::Head;

use crate::Result;
use crate::bytes::{self, Cursor};
use crate::dtype::Dtype;
use factors::Factors;

/// A low-rank prediction whose factors have been parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LowRank {
    head: Head,
    dtype: Dtype,
    factors: Factors,
}

impl LowRank {
    /// Parses the head and the factors of a prediction for a tensor of
    /// `elements` elements. It allocates at most eight times the number of
    /// bytes that it reads.
    ///
    /// # Errors
    /// The dtype is neither bfloat16 nor float32, or a field exceeds its limits
    /// (13.1).
    pub fn parse(cursor: &mut Cursor, dtype: Dtype, elements: u64) -> Result<Self> {
        let at = cursor.position() as u64;
        let head = Head::parse(cursor)?;
        head.check(dtype, elements).map_err(|error| error.at(at))?;
        let at = cursor.position() as u64;
        let packed = cursor.take(head.factors_len_bytes(), "low-rank factors")?;
        let factors = Factors::unpack(packed, &head).map_err(|e| e.within(at))?;
        Ok(Self {
            head,
            dtype,
            factors,
        })
    }

    /// Appends the head and the factors to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.head.write(out);
        self.factors.pack(self.head.bits, out);
    }

    /// Returns the number of bytes that [`Self::write`] appends.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.head.len_bytes()
    }

    /// Returns the fields that precede the factors.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Predicts a range of elements and writes them to `out`, little-endian in
    /// the tensor's dtype (13.2). `base` holds the same range of the base.
    ///
    /// # Panics
    /// If the range exceeds the matrix, or if the length of `base` or `out`
    /// does not match the range.
    pub fn predict(&self, base: &[u8], elements: Range<usize>, out: &mut [u8]) {
        let columns = bytes::index(self.head.columns.into());
        let rows = bytes::index(self.head.rows.into());
        let width = if self.dtype == Dtype::F32 { 4 } else { 2 };
        assert!(elements.end <= rows * columns, "elements of the matrix");
        assert_eq!(
            base.len(),
            elements.len() * width,
            "a base for each element"
        );
        assert_eq!(base.len(), out.len(), "an output for each element");
        predict::predict(self, base, elements, out);
    }
}

#[cfg(test)]
#[allow(clippy::cast_possible_truncation)] // small numbers
mod tests;
