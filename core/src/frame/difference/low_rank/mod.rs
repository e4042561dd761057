//! Low-rank prediction: the base plus the product of two thin matrices, as a
//! merged adapter adds it (docs/formats/zxd1.md 13).
//!
//! The factors are integers, and their product is exact. A predicted element is
//! one addition in double precision and one or two roundings, the same on
//! every platform.

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

/// A prediction whose factors have been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LowRank {
    head: Head,
    dtype: Dtype,
    factors: Factors,
}

impl LowRank {
    /// Reads head and factors for a tensor of so many elements. The memory
    /// taken is at most eight times the bytes read.
    ///
    /// # Errors
    /// A dtype other than bfloat16 and float32, and fields outside their
    /// limits (13.1).
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

    /// Appends head and factors to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.head.write(out);
        self.factors.pack(self.head.bits, out);
    }

    /// Returns the bytes that [`Self::write`] appends.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.head.len_bytes()
    }

    /// Returns the fields before the factors.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Writes the predicted elements of that range to `out`, little-endian in
    /// the tensor's dtype (13.2). `base` holds the same elements of the base.
    ///
    /// # Panics
    /// If the range exceeds the matrix, or `base` or `out` is not as long as
    /// the range.
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
