//! Reads some rows of a tensor: slices along its outermost dimension.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::{Model, TensorInfo};
use crate::catalog::{RangePlan, check_inside};
use crate::container::zstn::rows::PlaneSize;
use crate::engine::Engine;
use crate::tensor::element_count;
use crate::{Error, Result};

/// Rows of a tensor, with the ranges to fetch for them. Made by
/// [`Model::rows`].
#[derive(Debug, Clone)]
pub struct Rows {
    name: String,
    shape: Vec<u64>,
    span: Range<u64>,
    /// The number of the file, and the plan for reading the rows; `None` if the
    /// whole tensor has to be decoded.
    cut: Option<(usize, RangePlan)>,
}

impl Rows {
    /// Returns the name of the tensor.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the shape of the rows: the shape of the tensor with the
    /// requested number of rows as its first dimension.
    #[must_use]
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Returns the range of the rows in the bytes of the tensor.
    #[must_use]
    pub fn span(&self) -> Range<u64> {
        self.span.clone()
    }

    /// Returns whether the tensor can only be decoded as a whole, by
    /// [`Model::decode`]. The rows are then its bytes [`Rows::span`].
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.cut.is_none()
    }

    /// Returns the ranges to fetch, in ascending order, each with the number of
    /// its file; none if [`Rows::is_whole`].
    pub fn ranges(&self) -> impl ExactSizeIterator<Item = (usize, Range<u64>)> {
        let (file, ranges) = match &self.cut {
            Some((file, plan)) => (*file, plan.ranges()),
            None => (0, &[][..]),
        };
        ranges.iter().map(move |range| (file, range.clone()))
    }

    /// Returns the total length of [`Rows::ranges`] in bytes; `None` if
    /// [`Rows::is_whole`].
    #[must_use]
    pub fn fetched_len_bytes(&self) -> Option<u64> {
        let ranges = self.cut.as_ref()?.1.ranges().iter();
        Some(ranges.map(|range| range.end - range.start).sum())
    }

    /// Returns the number of bytes of the tensor that are decoded together
    /// ([`PartPlan::band_bytes`]). `None` for a tensor that is not stored in
    /// blocks, and for one that can only be decoded as a whole.
    ///
    /// [`PartPlan::band_bytes`]: crate::container::zstn::rows::PartPlan::band_bytes
    #[must_use]
    pub fn band_bytes(&self) -> Option<u64> {
        self.cut.as_ref()?.1.band_bytes()
    }

    /// Returns the required range of the base's tensor, which
    /// [`Model::part`] can read. `None` if the tensor does not depend on a
    /// base, or if [`Rows::is_whole`].
    #[must_use]
    pub fn base(&self) -> Option<Range<u64>> {
        self.cut.as_ref()?.1.base()
    }

    /// Decodes the rows from the bytes of [`Rows::ranges`] and, where they are
    /// required, of [`Rows::base`]. Bytes for which the file has a checksum are
    /// compared with it.
    pub fn decode<E: Engine>(
        &self,
        engine: &E,
        fetched: &[&[u8]],
        base: Option<&[u8]>,
    ) -> Result<Vec<u8>> {
        let Some((_, plan)) = &self.cut else {
            return Err(
                Error::invalid_input("this tensor has to be read as a whole").tensor(&self.name),
            );
        };
        plan.decode(engine, fetched, base)
            .map_err(|error| error.tensor(&self.name))
    }
}

impl TensorInfo {
    /// Returns the range of the rows in the tensor's bytes.
    fn row_span(&self, rows: &Range<u64>) -> Result<Range<u64>> {
        let refuse = |detail| Err(Error::invalid_input(detail).tensor(&self.name));
        let Some((&count, row_shape)) = self.shape.split_first() else {
            return refuse("a scalar has no rows".into());
        };
        if rows.start > rows.end || rows.end > count {
            return refuse(format!(
                "rows {}..{} are outside its {count} rows",
                rows.start, rows.end
            ));
        }
        if rows.is_empty() {
            return Ok(0..0);
        }
        let row_bits = element_count(row_shape)
            .and_then(|elements| elements.checked_mul(self.dtype.bits()))
            .filter(|bits| bits.checked_mul(rows.end).is_some());
        let Some(row_bits) = row_bits else {
            return refuse("the tensor has more bits than 64 bits can count".into());
        };
        let (start, end) = (rows.start * row_bits, rows.end * row_bits);
        if !start.is_multiple_of(8) || !end.is_multiple_of(8) {
            return refuse(format!(
                "rows {}..{} of {row_bits} bits each do not begin and end on a byte",
                rows.start, rows.end
            ));
        }
        Ok(start / 8..end / 8)
    }
}

impl Model {
    /// Returns the range whose bytes [`Model::rows`] requires as the table of
    /// tensor `number`, with the number of its file, or `None` if `fetched` is
    /// enough. Call this with no bytes first, fetch the range, and call it
    /// again with the fetched bytes until it returns `None`. It returns `None`
    /// at once for tensors without a table, and for tables that were fetched
    /// with the index.
    #[must_use]
    pub fn block_table(&self, number: usize, fetched: &[u8]) -> Option<(usize, Range<u64>)> {
        let part = self.tensors.get(number)?.only_part()?;
        let table = self.files[part.file].block_table(part.number, fetched)?;
        Some((part.file, table))
    }

    /// Returns the stored size of each plane of tensor `number`, in the order
    /// of the frame. `table` contains the bytes of the ranges that
    /// [`Model::block_table`] has returned. Returns `None` if the file has no
    /// block table for the tensor.
    pub fn plane_sizes(
        &self,
        number: usize,
        table: Option<&[u8]>,
    ) -> Result<Option<Vec<PlaneSize>>> {
        match self.tensor(number)?.only_part() {
            Some(part) => self.files[part.file].plane_sizes(part.number, table),
            None => Ok(None),
        }
    }

    /// Plans how to read `rows` of tensor `number`. `table` contains the bytes
    /// of the ranges that [`Model::block_table`] has returned.
    pub fn rows(&self, number: usize, rows: Range<u64>, table: Option<&[u8]>) -> Result<Rows> {
        let tensor = self.tensor(number)?;
        let span = tensor.row_span(&rows)?;
        let mut shape = tensor.shape.clone();
        shape[0] = rows.end - rows.start;
        self.cut(tensor, shape, span, table)
    }

    /// Plans how to read the bytes `span` of tensor `number`, like
    /// [`Model::rows`]. The result has one dimension: the number of bytes.
    pub fn part(&self, number: usize, span: Range<u64>, table: Option<&[u8]>) -> Result<Rows> {
        let tensor = self.tensor(number)?;
        check_inside(&tensor.name, tensor.len_bytes(), &span)?;
        self.cut(tensor, [span.end - span.start].into(), span, table)
    }

    /// Plans how to read bytes that are known to lie inside the tensor.
    fn cut(
        &self,
        tensor: &TensorInfo,
        shape: Vec<u64>,
        span: Range<u64>,
        table: Option<&[u8]>,
    ) -> Result<Rows> {
        // A whole tensor is decoded as such, so that it is compared with its
        // digest.
        let is_all = span == (0..tensor.len_bytes());
        let cut = match tensor.only_part().filter(|_| !is_all) {
            Some(part) => {
                let plan = self.files[part.file].plan_inside(part.number, &span, table)?;
                plan.map(|plan| (part.file, plan))
            }
            None => None,
        };
        Ok(Rows {
            name: tensor.name.clone(),
            shape,
            span,
            cut,
        })
    }
}
