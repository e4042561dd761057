//! Low-rank prediction: elements are predicted as the base plus the product of
//! two thin matrices, which is how a merged adapter changes them
//! (docs/formats/zxd1.md 13).
//!
//! The factors are integers, and their product is exact. Predicting an element
//! takes one addition in double precision and one or two roundings, with the
//! same result on every platform.

use alloc::format;
use alloc::vec::Vec;
use core::ops::{Range, RangeInclusive};

use crate::bytes::{self, Cursor};
use crate::dtype::Dtype;
use crate::entropy::bits::{BitReader, BitWriter};
use crate::{Error, Result, Rule};

mod fit;
mod predict;
#[cfg(test)]
#[allow(clippy::cast_possible_truncation)] // small numbers
mod tests;

pub use fit::fit;

/// A low-rank prediction whose factors have been parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LowRank {
    head: LowRankHead,
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
        let head = LowRankHead::parse(cursor)?;
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
    pub fn head(&self) -> &LowRankHead {
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

/// The allowed sums of both shifts. They ensure that every integer up to 2^53,
/// divided by 2 to the power of the sum, is an exact and normal double.
const EXACT_SHIFTS: RangeInclusive<i32> = -970..=1022;

/// Rank, shape and scale of the product, and the width of its factors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LowRankHead {
    /// The inner dimension of the product, at least 1.
    pub rank: u16,
    /// Number of bits of a factor, 2 to 24.
    pub bits: u8,
    /// The left factors are divided by 2 to the power of the first shift, the
    /// right factors by 2 to the power of the second.
    pub shifts: [i16; 2],
    /// Number of rows of the matrix.
    pub rows: u32,
    /// Number of columns of the matrix.
    pub columns: u32,
}

impl LowRankHead {
    /// Length of the serialised fields in bytes.
    pub(crate) const LEN_BYTES: u64 = 15;

    /// The allowed ranks. Every unit costs a multiplication per element, and
    /// the length of the input does not bound that work.
    pub(crate) const RANKS: RangeInclusive<u16> = 1..=1024;

    /// The allowed numbers of bits of a factor.
    pub const BITS: RangeInclusive<u8> = 2..=24;

    /// Reads the fields without checking them.
    pub fn parse(cursor: &mut Cursor) -> Result<Self> {
        let rank = cursor.u16("rank")?;
        let bits = cursor.u8("bits of a factor")?;
        let mut shift = || Ok(i16::from_le_bytes(cursor.array("shift of factors")?));
        let shifts = [shift()?, shift()?];
        Ok(Self {
            rank,
            bits,
            shifts,
            rows: cursor.u32("rows")?,
            columns: cursor.u32("columns")?,
        })
    }

    /// Appends the fields to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.rank.to_le_bytes());
        out.push(self.bits);
        for shift in self.shifts {
            out.extend_from_slice(&shift.to_le_bytes());
        }
        out.extend_from_slice(&self.rows.to_le_bytes());
        out.extend_from_slice(&self.columns.to_le_bytes());
    }

    /// Checks the fields for a tensor of `elements` elements.
    pub fn check(&self, dtype: Dtype, elements: u64) -> Result<()> {
        if !matches!(dtype, Dtype::Bf16 | Dtype::F32) {
            let detail = format!("low-rank prediction does not support {dtype} elements");
            return Err(Error::malformed(Rule::LowRankDtype, detail));
        }
        let (rows, columns) = (u64::from(self.rows), u64::from(self.columns));
        // Both are below 2^32, so the product does not overflow.
        if rows * columns != elements {
            let detail =
                format!("a product of {rows} x {columns} does not have {elements} elements");
            return Err(Error::malformed(Rule::LowRankShape, detail));
        }
        if !Self::RANKS.contains(&self.rank) || u64::from(self.rank) > rows.min(columns) {
            let detail = format!(
                "rank {} is invalid for a {rows} x {columns} matrix",
                self.rank
            );
            return Err(Error::malformed(Rule::LowRankShape, detail));
        }
        if !Self::BITS.contains(&self.bits) {
            let detail = format!("factors have {} bits, not 2 to 24", self.bits);
            return Err(Error::malformed(Rule::LowRankBits, detail));
        }
        if self.largest_sum() > 1 << 53 {
            let detail = format!(
                "sums of {} products of {} bits are not exact",
                self.rank,
                2 * self.bits
            );
            return Err(Error::malformed(Rule::LowRankBits, detail));
        }
        if !EXACT_SHIFTS.contains(&self.shift()) {
            let detail = format!("products divided by 2^{}", self.shift());
            return Err(Error::malformed(Rule::LowRankShift, detail));
        }
        Ok(())
    }

    /// Returns the sum of both shifts. Sums of products are divided by 2 to the
    /// power of this number.
    #[must_use]
    pub fn shift(&self) -> i32 {
        i32::from(self.shifts[0]) + i32::from(self.shifts[1])
    }

    /// Returns the largest possible magnitude of a sum of products.
    #[must_use]
    pub(crate) fn largest_sum(&self) -> u64 {
        u64::from(self.rank) << (2 * (u32::from(self.bits) - 1))
    }

    /// Returns whether every sum of products is exact in single precision. If
    /// so, factors have at most 13 bits.
    #[must_use]
    fn is_single(&self) -> bool {
        self.largest_sum() <= 1 << 24
    }

    /// Returns the number of factors, which is at most 2^43.
    #[must_use]
    pub fn factors(&self) -> u64 {
        u64::from(self.rank) * (u64::from(self.rows) + u64::from(self.columns))
    }

    /// Returns the length of the packed factors in bytes.
    #[must_use]
    pub(crate) fn factors_len_bytes(&self) -> u64 {
        (self.factors() * u64::from(self.bits)).div_ceil(8)
    }

    /// Returns the total length of the fields and the factors in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        Self::LEN_BYTES + self.factors_len_bytes()
    }

    /// Returns two ranges of bytes, relative to the first field: the range that
    /// holds the left factors of `rows`, and the range of all right factors.
    /// The first and the last byte of a range may also hold bits of
    /// neighbouring factors.
    #[must_use]
    pub fn ranges(&self, rows: Range<u32>) -> [Range<u64>; 2] {
        let (rank, bits) = (u64::from(self.rank), u64::from(self.bits));
        let place = |range: Range<u64>| {
            let first = range.start * rank * bits / 8;
            Self::LEN_BYTES + first..Self::LEN_BYTES + (range.end * rank * bits).div_ceil(8)
        };
        let all_rows = u64::from(self.rows);
        [
            place(rows.start.into()..rows.end.into()),
            place(all_rows..all_rows + u64::from(self.columns)),
        ]
    }
}

/// The left factors in row-major order, followed by the right ones in row-major
/// order.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Factors {
    /// Factors whose sums of products are exact in single precision.
    Narrow(Vec<i16>),
    Wide(Vec<i32>),
}

impl Factors {
    /// Stores the factors of a product described by `head`.
    pub fn new(values: Vec<i32>, head: &LowRankHead) -> Self {
        if head.is_single() {
            let narrow = |value| i16::try_from(value).expect("a factor of at most 13 bits");
            Self::Narrow(values.into_iter().map(narrow).collect())
        } else {
            Self::Wide(values)
        }
    }

    /// Unpacks the factors of a product described by `head`, which must fill
    /// `packed`.
    pub fn unpack(packed: &[u8], head: &LowRankHead) -> Result<Self> {
        let mut reader = BitReader::new(packed);
        let mut next = || -> Result<i32> {
            let value = reader.take(head.bits.into(), "a low-rank factor")?;
            Ok(value.cast_signed() - (1 << (head.bits - 1)))
        };
        // The allocation is at most eight times as long as the packed bytes.
        let too_many = || Error::limit("the low-rank factors do not fit into memory");
        let count = usize::try_from(head.factors()).map_err(|_| too_many())?;
        let factors = if head.is_single() {
            let mut values = Vec::new();
            values.try_reserve_exact(count).map_err(|_| too_many())?;
            for _ in 0..count {
                values.push(i16::try_from(next()?).expect("a factor of at most 13 bits"));
            }
            Self::Narrow(values)
        } else {
            let mut values = Vec::new();
            values.try_reserve_exact(count).map_err(|_| too_many())?;
            for _ in 0..count {
                values.push(next()?);
            }
            Self::Wide(values)
        };
        reader.finish(Rule::LowRankPadding, "the low-rank factors")?;
        Ok(factors)
    }

    /// Appends the factors with `bits` bits each, padded with zeros to a whole
    /// byte.
    pub fn pack(&self, bits: u8, out: &mut Vec<u8>) {
        let mut writer = BitWriter::new(out);
        let mut push = |factor: i32| {
            let offset = i64::from(factor) + (1 << (bits - 1));
            let value = u64::try_from(offset).expect("a factor of that many bits");
            debug_assert!(value >> bits == 0, "a factor of that many bits");
            writer.put(value, bits.into());
        };
        match self {
            Self::Narrow(values) => values.iter().for_each(|&v| push(v.into())),
            Self::Wide(values) => values.iter().for_each(|&v| push(v)),
        }
        writer.finish();
    }
}
