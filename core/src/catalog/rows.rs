//! Reads a part of a tensor: says which bytes of the file are needed for it.

use alloc::vec::Vec;
use core::ops::Range;

use super::format::AnyContents;
use super::zstn::FormatContents;
use super::{FileCatalog, FileTensor, RangePlan};
use crate::bytes::part;
use crate::container::zstn::rows::{FrameTable, PlaneSize};
use crate::{Error, Result};

/// The block tables of a ZSTN file that were fetched with its index, starting
/// at byte `start` of the file.
#[derive(Debug, Clone, Default)]
pub(super) struct Tables {
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
}

impl Tables {
    pub(super) fn get(&self, range: &Range<u64>) -> Option<&[u8]> {
        let start = range.start.checked_sub(self.start)?;
        let end = range.end - self.start;
        (end <= self.bytes.len() as u64).then(|| part(&self.bytes, start..end))
    }
}

/// Refuses bytes that are not inside the tensor called `name`.
pub(crate) fn check_inside(name: &str, len_bytes: u64, span: &Range<u64>) -> Result<()> {
    if span.start <= span.end && span.end <= len_bytes {
        return Ok(());
    }
    Err(Error::invalid_input("the bytes asked for are not inside the tensor").tensor(name))
}

impl FileCatalog {
    /// Returns the range of the file whose bytes [`FileCatalog::plan`] takes as the
    /// table of tensor `number`; `None` if it takes `fetched`, which are no bytes at
    /// first and then those of the last range, or what came with the index.
    #[must_use]
    pub fn block_table(&self, number: usize, fetched: &[u8]) -> Option<Range<u64>> {
        let tensor = self.tensors.get(number)?;
        self.contents.table(tensor, number, fetched)
    }

    /// Returns the stored size of each plane of tensor `number`. `table` holds
    /// the bytes of the ranges returned by [`FileCatalog::block_table`]. `None`
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
    /// bytes of the ranges returned by [`FileCatalog::block_table`]. `None` if
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
        check_inside(&tensor.name, tensor.len_bytes(), &span)?;
        self.plan_inside(number, &span, table)
    }

    /// Plans like [`FileCatalog::plan`] for bytes that are inside the tensor.
    pub(crate) fn plan_inside(
        &self,
        number: usize,
        span: &Range<u64>,
        table: Option<&[u8]>,
    ) -> Result<Option<RangePlan>> {
        let tensor = self.tensor(number)?;
        self.contents.plan(tensor, number, span, table)
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
