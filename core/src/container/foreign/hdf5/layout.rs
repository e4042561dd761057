//! The places of a dataset's values (docs/formats/hdf5.md 5).

use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::datatype::{Dataspace, fields};
use super::file::{File, refuse};
use super::grid::Grid;
use super::header::Message;
use crate::container::foreign::random_access::Read;
use crate::container::foreign::shape::element_count;
use crate::{Error, Rule};

/// A chunk of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    /// The first element in each dimension.
    pub(super) origin: Vec<u64>,
    /// The range of the file that contains the chunk.
    pub(super) stored: Range<u64>,
    /// The filters that were left out, by bit.
    pub(super) mask: u32,
}

/// The values of a dataset.
#[derive(Debug, Clone)]
pub(super) enum Layout {
    /// There are none, so all elements have the fill value.
    Unwritten,
    /// The values are stored at this range of the file.
    Contiguous(Range<u64>),
    Chunked {
        /// The size of a chunk in each dimension.
        chunk: Vec<u64>,
        chunks: Vec<Chunk>,
    },
}

fn unknown(detail: impl Into<alloc::borrow::Cow<'static, str>>, at: u64) -> Error {
    refuse(Rule::Hdf5Layout, detail, at)
}

impl Layout {
    /// Reads the layout of a dataset of `len_bytes`, with elements of
    /// `element_bytes`.
    pub fn read(
        file: &mut File,
        message: &Message,
        space: &Dataspace,
        element_bytes: u64,
        len_bytes: u64,
        is_filtered: bool,
    ) -> Read<Self> {
        let at = message.at;
        let mut fields = fields(message, file.sizes, Rule::Hdf5Layout);
        let version = fields.u8()?;
        if !(3..=5).contains(&version) {
            return Err(unknown(format!("version {version} of a layout is unknown"), at).into());
        }
        match fields.u8()? {
            0 => {
                let stored = fields.number(2)?;
                fields.take(stored)?;
                placed(fields.at - stored, stored, len_bytes, file, at)
            }
            1 => {
                let start = fields.address()?;
                let stored = fields.length()?;
                match file.offset(start) {
                    Some(start) => placed(start, stored, len_bytes, file, at),
                    None => Ok(Self::Unwritten),
                }
            }
            2 => {
                let flags = if version > 3 { fields.u8()? } else { 0 };
                let rank = u64::from(fields.u8()?);
                if rank != space.shape.len() as u64 + 1 {
                    return Err(unknown("chunks have another rank than the shape", at).into());
                }
                let tree = if version == 3 { fields.address()? } else { 0 };
                let width = if version > 3 { fields.number(1)? } else { 4 };
                if !(1..=8).contains(&width) {
                    return Err(unknown("sizes of chunks have an unknown length", at).into());
                }
                let sizes = (0..rank).map(|_| fields.number(width));
                let mut chunk = sizes.collect::<Result<Vec<u64>, _>>()?;
                let element = chunk.pop();
                let count = element_count(&chunk).filter(|count| *count > 0);
                let chunk_bytes = count.and_then(|count| count.checked_mul(element_bytes));
                let Some(chunk_bytes) = chunk_bytes.filter(|_| element == Some(element_bytes))
                else {
                    return Err(unknown("the sizes of chunks do not fit the elements", at).into());
                };
                let mut grid = Grid::new(space, chunk, chunk_bytes, is_filtered);
                match version {
                    3 => {
                        if let Some(root) = file.offset(tree) {
                            grid.tree(file, root, None, &mut 0)?;
                        }
                    }
                    _ => grid.indexed(file, flags, &mut fields, version)?,
                }
                let (chunk, chunks) = grid.finish();
                Ok(Self::Chunked { chunk, chunks })
            }
            3 => {
                let detail = "it is a virtual dataset, whose values are in other files";
                Err(refuse(Rule::Hdf5External, detail, at).into())
            }
            class => Err(unknown(format!("class {class} of a layout is unknown"), at).into()),
        }
    }
}

/// Checks that values of `len_bytes` are stored as `stored` bytes at `start`.
fn placed(start: u64, stored: u64, len_bytes: u64, file: &File, at: u64) -> Read<Layout> {
    let end = start.checked_add(stored);
    let end = end.filter(|end| *end <= file.access.len_bytes());
    match end {
        Some(end) if stored == len_bytes => Ok(Layout::Contiguous(start..end)),
        _ => {
            let detail = format!(
                "its values have {len_bytes} bytes, and {stored} are stored at byte {start} of \
                 the file, which has {}",
                file.access.len_bytes()
            );
            Err(refuse(Rule::Hdf5Extent, detail, at).into())
        }
    }
}
