//! Reads a part of a tensor: says which bytes of the file are needed, and
//! decodes the part from them.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::{Contents, FileCatalog};
use crate::Result;
use crate::bytes::part;
use crate::container::zstn::rows::{self, BlockTable, PlaneSize};
use crate::engine::Engine;

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
    cut: Option<(u64, rows::FramePlan)>,
}

impl RangePlan {
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
    ///
    /// # Panics
    /// If there is no tensor with that number.
    #[must_use]
    pub fn block_table(&self, number: usize) -> Option<Range<u64>> {
        let Contents::Zstn(integrity, tables) = &self.contents else {
            return None;
        };
        let range = integrity.as_ref()?.table(number)?;
        tables.get(&range).is_none().then_some(range)
    }

    /// Returns the stored size of each plane of tensor `number`. `table` holds
    /// the bytes of the range returned by [`FileCatalog::block_table`]. `None`
    /// if there is no table: for short, sparse and palette frames, and for
    /// tensors that are not packed.
    ///
    /// # Panics
    /// If there is no tensor with that number.
    pub fn plane_sizes(
        &self,
        number: usize,
        table: Option<&[u8]>,
    ) -> Result<Option<Vec<PlaneSize>>> {
        let table = self.parsed_table(number, table)?;
        Ok(table.map(|table| table.plane_sizes()))
    }

    fn parsed_table(&self, number: usize, table: Option<&[u8]>) -> Result<Option<BlockTable>> {
        let Contents::Zstn(Some(integrity), tables) = &self.contents else {
            return Ok(None);
        };
        let Some(range) = integrity.table(number) else {
            return Ok(None);
        };
        let Some(bytes) = table.or_else(|| tables.get(&range)) else {
            return Ok(None);
        };
        let tensor = &self.tensors[number];
        let frame_len_bytes = tensor.stored.end - tensor.stored.start;
        BlockTable::parse(bytes, frame_len_bytes, tensor.len_bytes())
            .map(Some)
            .map_err(|error| error.within(range.start).tensor(&tensor.name))
    }

    /// Plans how to read the bytes `span` of tensor `number`. `table` holds the
    /// bytes of the range returned by [`FileCatalog::block_table`]. `None` if
    /// the tensor can only be read as a whole.
    ///
    /// # Panics
    /// If there is no tensor with that number, or `span` is not inside it.
    pub fn plan(
        &self,
        number: usize,
        span: Range<u64>,
        table: Option<&[u8]>,
    ) -> Result<Option<RangePlan>> {
        let tensor = &self.tensors[number];
        let stored = &tensor.stored;
        match &self.contents {
            Contents::Safetensors => {
                let range = stored.start + span.start..stored.start + span.end;
                let ranges = if range.is_empty() {
                    vec![]
                } else {
                    vec![range]
                };
                Ok(Some(RangePlan { ranges, cut: None }))
            }
            Contents::Zstn(..) => {
                let Some(table) = self.parsed_table(number, table)? else {
                    return Ok(None);
                };
                let plan = rows::FramePlan::new(&table, span);
                let in_file = |r: &Range<u64>| stored.start + r.start..stored.start + r.end;
                Ok(Some(RangePlan {
                    ranges: plan.ranges().iter().map(in_file).collect(),
                    cut: Some((stored.start, plan)),
                }))
            }
            _ => Ok(None),
        }
    }
}
