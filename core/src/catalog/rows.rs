//! Reads a part of a tensor: says which bytes of the file are needed, and
//! decodes the part from them.

use alloc::vec::Vec;
use core::ops::Range;

use super::format::AnyContents;
use super::zstn::FormatContents;
use super::{FileCatalog, FileTensor};
use crate::bytes::part;
use crate::container::zstn::rows::{FrameTable, PartPlan, PlaneSize};
use crate::engine::Engine;
use crate::{Error, Result};

/// The block tables of a ZSTN file that were fetched with its index, starting
/// at byte `start` of the file.
#[derive(Debug, Clone, Default)]
pub(super) struct Tables {
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
}

impl Tables {
    fn get(&self, range: &Range<u64>) -> Option<&[u8]> {
        let start = range.start.checked_sub(self.start)?;
        let end = range.end - self.start;
        (end <= self.bytes.len() as u64).then(|| part(&self.bytes, start..end))
    }
}

/// A plan for reading a part of a tensor. Made by [`FileCatalog::plan`].
#[derive(Debug, Clone)]
pub struct RangePlan {
    ranges: Vec<Range<u64>>,
    /// The offset of the frame in the file, and the plan for the frame; `None`
    /// if the part is stored uncompressed.
    cut: Option<(u64, PartPlan)>,
}

impl RangePlan {
    /// Plans for a part that is stored uncompressed at these `ranges`.
    pub(super) fn stored(ranges: Vec<Range<u64>>) -> Self {
        Self { ranges, cut: None }
    }

    /// Plans for the bytes `span` of the tensor whose frame is at `start` and has
    /// this `table`.
    pub(super) fn of_frame(start: u64, table: &FrameTable, span: Range<u64>) -> Self {
        let plan = table.plan(span);
        let in_file = |range: &Range<u64>| start + range.start..start + range.end;
        Self {
            ranges: plan.ranges().iter().map(in_file).collect(),
            cut: Some((start, plan)),
        }
    }

    /// Returns the ranges of the file to fetch, in order; no two of them touch.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Decodes the part of the tensor from the bytes of [`RangePlan::ranges`]. Every
    /// block is compared with its checksum.
    pub fn decode<E: Engine>(&self, engine: &E, fetched: &[&[u8]]) -> Result<Vec<u8>> {
        match &self.cut {
            Some((start, plan)) => plan
                .decode(engine, fetched)
                .map_err(|error| error.within(*start)),
            None => Ok(fetched.concat()),
        }
    }
}

impl FileCatalog {
    /// Returns the range of the file that [`FileCatalog::plan`] needs for
    /// tensor `number`; `None` if it needs none, or if those bytes have been
    /// fetched already.
    #[must_use]
    pub fn block_table(&self, number: usize) -> Option<Range<u64>> {
        let AnyContents::Zstn(contents) = &self.contents else {
            return None;
        };
        let range = contents.integrity.as_ref()?.table(number)?;
        contents.tables.get(&range).is_none().then_some(range)
    }

    /// Returns the stored size of each plane of tensor `number`. `table` holds
    /// the bytes of the range returned by [`FileCatalog::block_table`]. `None`
    /// if there is no table: for short, sparse and palette frames, and for
    /// tensors that are not packed.
    pub fn plane_sizes(
        &self,
        number: usize,
        table: Option<&[u8]>,
    ) -> Result<Option<Vec<PlaneSize>>> {
        let tensor = self.tensor(number)?;
        let AnyContents::Zstn(contents) = &self.contents else {
            return Ok(None);
        };
        let table = contents.block_table(tensor, number, table)?;
        Ok(table.map(|table| table.plane_sizes()))
    }

    /// Plans how to read the bytes `span` of tensor `number`. `table` holds the
    /// bytes of the range returned by [`FileCatalog::block_table`]. `None` if
    /// the tensor can only be read as a whole.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if there is no tensor
    /// with that number, or `span` is not inside it; a table that is damaged.
    pub fn plan(
        &self,
        number: usize,
        span: Range<u64>,
        table: Option<&[u8]>,
    ) -> Result<Option<RangePlan>> {
        let tensor = self.tensor(number)?;
        if span.start > span.end || span.end > tensor.len_bytes() {
            let detail = "the bytes asked for are not inside the tensor";
            return Err(Error::invalid_input(detail).tensor(&tensor.name));
        }
        self.contents.plan(tensor, number, &span, table)
    }
}

impl FormatContents {
    /// Returns the block table of a tensor, if there is one: `table` are its
    /// bytes, unless they were fetched with the index.
    pub(super) fn block_table(
        &self,
        tensor: &FileTensor,
        number: usize,
        table: Option<&[u8]>,
    ) -> Result<Option<FrameTable>> {
        let range = self.integrity.as_ref().and_then(|all| all.table(number));
        let Some(range) = range else {
            return Ok(None);
        };
        let Some(bytes) = table.or_else(|| self.tables.get(&range)) else {
            return Ok(None);
        };
        let (stored_len, len) = (tensor.stored_len_bytes(), tensor.len_bytes());
        FrameTable::parse(bytes, stored_len, len, self.edition)
            .map(Some)
            .map_err(|error| error.within(range.start).tensor(&tensor.name))
    }
}
