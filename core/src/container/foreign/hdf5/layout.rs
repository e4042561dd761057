//! The places of a dataset's values (docs/formats/hdf5.md 5).

use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::datatype::{Dataspace, fields};
use super::file::{File, refuse};
use super::header::Message;
use crate::container::foreign::random_access::{Read, Stop};
use crate::container::foreign::shape::element_count;
use crate::limits::HDF5_OBJECTS;
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

/// The chunks of a dataset, while they are being found.
struct Grid<'s> {
    space: &'s Dataspace,
    chunk: Vec<u64>,
    chunk_bytes: u64,
    is_filtered: bool,
    chunks: Vec<Chunk>,
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
                let mut grid = Grid {
                    space,
                    chunk,
                    chunk_bytes,
                    is_filtered,
                    chunks: Vec::new(),
                };
                match version {
                    3 => {
                        if let Some(root) = file.offset(tree) {
                            grid.tree(file, root, None, &mut 0)?;
                        }
                    }
                    _ => grid.indexed(file, flags, &mut fields, version)?,
                }
                Ok(Self::Chunked {
                    chunk: grid.chunk,
                    chunks: grid.chunks,
                })
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

impl Grid<'_> {
    fn add(&mut self, file: &File, origin: Vec<u64>, start: u64, len: u64, mask: u32) -> Read<()> {
        let wrong = |detail: &'static str| refuse(Rule::Hdf5Chunk, detail, start);
        if self.chunks.len() >= HDF5_OBJECTS {
            return Err(Error::limit("a dataset has too many chunks")
                .at(start)
                .into());
        }
        let sizes = self.space.shape.iter().zip(&self.chunk);
        let mut places = origin.iter().zip(sizes);
        if !places.all(|(from, (size, chunk))| from < size && from.is_multiple_of(*chunk)) {
            return Err(wrong("a chunk lies outside of its dataset").into());
        }
        let end = start.checked_add(len);
        let end = end.filter(|end| *end <= file.access.len_bytes());
        let end = end.ok_or_else(|| {
            let detail = "a chunk leaves the file, which is cut or damaged";
            refuse(Rule::Hdf5Extent, detail, start)
        })?;
        if !self.is_filtered && len != self.chunk_bytes {
            return Err(wrong("a chunk without filters has another length").into());
        }
        self.chunks.push(Chunk {
            origin,
            stored: start..end,
            mask,
        });
        Ok(())
    }

    /// Adds the chunks in a node of the tree at `at`. Levels decrease, so the walk
    /// ends.
    fn tree(&mut self, file: &mut File, at: u64, level: Option<u8>, nodes: &mut usize) -> Read<()> {
        let broken = |detail: &'static str| refuse(Rule::Hdf5Chunk, detail, at);
        *nodes += 1;
        if *nodes > HDF5_OBJECTS {
            return Err(Error::limit("a tree has too many nodes").at(at).into());
        }
        file.expect(at, b"TREE", Rule::Hdf5Chunk)?;
        let [kind, own_level, low, high] = file.access.array(at + 4)?;
        if kind != 1 || level.is_some_and(|level| level != own_level) {
            return Err(broken("a node of a tree of chunks has another kind or level").into());
        }
        let count = u64::from(u16::from_le_bytes([low, high]));
        let rank = self.chunk.len() as u64;
        let key_bytes = 8 + 8 * (rank + 1);
        let step = key_bytes + file.sizes.address;
        let start = at + 8 + 2 * file.sizes.address;
        for number in 0..count {
            let key = start + number * step;
            let child = file.address(key + key_bytes)?;
            let child = child.ok_or_else(|| broken("a node has an empty child"))?;
            if own_level > 0 {
                match self.tree(file, child, Some(own_level - 1), nodes) {
                    // All missing bytes are requested at once.
                    Ok(()) | Err(Stop::Missing) => continue,
                    refused => return refused,
                }
            }
            let key = file.bytes(key, key_bytes)?;
            let stored = super::file::number(key.get(..4).unwrap_or_default());
            let mask = super::file::number(key.get(4..8).unwrap_or_default());
            let places = key.get(8..).unwrap_or_default().chunks(8);
            let origin = places.take(self.chunk.len()).map(super::file::number);
            let mask = u32::try_from(mask).unwrap_or_default();
            self.add(file, origin.collect(), child, stored, mask)?;
        }
        Ok(())
    }

    /// Adds the chunks of a dataset with one of the indexes of layout 4.
    fn indexed(
        &mut self,
        file: &mut File,
        flags: u8,
        fields: &mut super::file::Fields,
        version: u8,
    ) -> Read<()> {
        let at = fields.at;
        match fields.u8()? {
            1 => {
                let is_stated = flags & 2 != 0;
                let length = if version > 4 { 8 } else { file.sizes.length };
                let stored = match is_stated {
                    true => fields.number(length)?,
                    false => self.chunk_bytes,
                };
                let mask = if is_stated { fields.number(4)? } else { 0 };
                let Some(start) = file.offset(fields.address()?) else {
                    return Ok(());
                };
                let origin = self.chunk.iter().map(|_| 0).collect();
                let mask = u32::try_from(mask).unwrap_or_default();
                self.add(file, origin, start, stored, mask)
            }
            2 => {
                let Some(start) = file.offset(fields.address()?) else {
                    return Ok(());
                };
                let left = file.access.len_bytes().saturating_sub(start);
                for number in 0..self.chunk_count(at)? {
                    let skipped = number.checked_mul(self.chunk_bytes);
                    let skipped = skipped.filter(|skipped| *skipped <= left);
                    let skipped = skipped.ok_or_else(|| {
                        let detail = "chunks leave the file, which is cut or damaged";
                        refuse(Rule::Hdf5Extent, detail, start)
                    })?;
                    self.numbered(file, number, start + skipped, self.chunk_bytes, 0)?;
                }
                Ok(())
            }
            3 => {
                fields.take(1)?;
                match file.offset(fields.address()?) {
                    Some(start) => self.fixed_array(file, start),
                    None => Ok(()),
                }
            }
            4 => Err(unread("an extensible array", at).into()),
            5 => Err(unread("a tree of version 2", at).into()),
            index => Err(unknown(format!("index {index} of chunks is unknown"), at).into()),
        }
    }

    /// Returns the number of chunks in each dimension, up to the greatest sizes.
    fn counts(&self) -> impl DoubleEndedIterator<Item = u64> {
        let sizes = self.space.greatest.iter().zip(&self.space.shape);
        let sizes = sizes.zip(&self.chunk);
        sizes.map(|((greatest, size), chunk)| match *greatest {
            u64::MAX => size.div_ceil((*chunk).max(1)),
            greatest => greatest.div_ceil((*chunk).max(1)),
        })
    }

    fn chunk_count(&self, at: u64) -> Result<u64, Error> {
        let counts: Vec<u64> = self.counts().collect();
        let count = element_count(&counts).filter(|count| *count <= HDF5_OBJECTS as u64);
        count.ok_or_else(|| Error::limit("a dataset has too many chunks").at(at))
    }

    /// Adds chunk `number`, counted with the last dimension as the fastest. Chunks
    /// outside of the shape are left out.
    fn numbered(
        &mut self,
        file: &File,
        number: u64,
        start: u64,
        stored: u64,
        mask: u32,
    ) -> Read<()> {
        let counts: Vec<u64> = self.counts().collect();
        let mut left = number;
        let mut origin: Vec<u64> = Vec::new();
        for (count, chunk) in counts.iter().zip(&self.chunk).rev() {
            let count = (*count).max(1);
            origin.push(left % count * chunk);
            left /= count;
        }
        origin.reverse();
        let mut places = origin.iter().zip(&self.space.shape);
        if places.any(|(from, size)| from >= size) {
            return Ok(());
        }
        self.add(file, origin, start, stored, mask)
    }

    fn fixed_array(&mut self, file: &mut File, at: u64) -> Read<()> {
        let (address, length) = (file.sizes.address, file.sizes.length);
        let head_bytes = 8 + length + address + 4;
        let head = file.checked(at, head_bytes, Rule::Hdf5Chunk)?;
        let broken = |detail: &'static str| refuse(Rule::Hdf5Chunk, detail, at);
        let [b'F', b'A', b'H', b'D', 0, client, width, page_bits, ..] = head[..] else {
            return Err(broken("the head of an array of chunks is unknown").into());
        };
        let count = file.length(at + 8)?;
        let Some(block) = file.address(at + 8 + length)? else {
            return Ok(());
        };
        if count > self.chunk_count(at)? {
            return Err(broken("an array has more chunks than the dataset").into());
        }
        if page_bits < 64 && count > 1 << page_bits {
            return Err(unread("an array in pages", at).into());
        }
        let width = u64::from(width);
        let sizes_bytes = width.checked_sub(address + if client == 1 { 4 } else { 0 });
        let Some(size_bytes) = sizes_bytes.filter(|size| *size <= 8) else {
            return Err(broken("the elements of an array of chunks are too short or long").into());
        };
        let start = 6 + address;
        let bytes = file.checked(block, start + count * width + 4, Rule::Hdf5Chunk)?;
        if !bytes.starts_with(b"FADB") {
            return Err(broken("an array of chunks has no data").into());
        }
        let elements = bytes.get(crate::bytes::index(start)..).unwrap_or_default();
        let elements = elements.chunks_exact(crate::bytes::index(width.max(1)));
        for (number, element) in (0..count).zip(elements) {
            let mut fields = super::file::Fields {
                bytes: element,
                at: block,
                sizes: file.sizes,
                rule: Rule::Hdf5Chunk,
            };
            let Some(start) = file.offset(fields.address()?) else {
                continue;
            };
            let (stored, mask) = match client {
                1 => (fields.number(size_bytes)?, fields.number(4)?),
                _ => (self.chunk_bytes, 0),
            };
            let mask = u32::try_from(mask).unwrap_or_default();
            self.numbered(file, number, start, stored, mask)?;
        }
        Ok(())
    }
}

fn unread(what: &str, at: u64) -> Error {
    let detail = format!("its chunks are listed in {what}, which is not read");
    Error::unsupported(detail).at(at)
}
