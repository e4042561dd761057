//! The chunks of a dataset, which are found in a tree or in one of five indexes
//! (docs/formats/hdf5.md 5).

use alloc::format;
use alloc::vec::Vec;

use super::datatype::Dataspace;
use super::file::{Fields, File, number, refuse, unless_refused};
use super::layout::Chunk;
use super::record_tree::{Records, record};
use crate::container::foreign::random_access::Read;
use crate::container::foreign::shape::element_count;
use crate::limits::HDF5_OBJECTS;
use crate::{Error, Rule};

/// A bit of the flags of an indexed layout: chunks that extend beyond the shape have no
/// filters.
const PLAIN_EDGES: u8 = 1;
/// A bit of the flags of an indexed layout: the length of a single chunk is stated.
const SINGLE_IS_FILTERED: u8 = 2;

/// The chunks of a dataset, while they are being found.
pub(super) struct Grid<'s> {
    space: &'s Dataspace,
    chunk: Vec<u64>,
    pub chunk_bytes: u64,
    is_filtered: bool,
    has_plain_edges: bool,
    /// The dimensions in which chunks are numbered, the fastest first, each with its
    /// number of chunks up to the greatest size.
    numbering: Vec<(usize, u64)>,
    chunks: Vec<Chunk>,
}

impl<'s> Grid<'s> {
    /// Returns a grid without chunks, for chunks of the size `chunk`, which have
    /// `chunk_bytes` without filters.
    pub fn new(space: &'s Dataspace, chunk: Vec<u64>, chunk_bytes: u64, is_filtered: bool) -> Self {
        Self {
            numbering: numbering(space, &chunk),
            space,
            chunk,
            chunk_bytes,
            is_filtered,
            has_plain_edges: false,
            chunks: Vec::new(),
        }
    }

    /// Returns the size of a chunk in each dimension, and the chunks.
    pub fn finish(self) -> (Vec<u64>, Vec<Chunk>) {
        (self.chunk, self.chunks)
    }

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
        let sizes = self.space.shape.iter().zip(&self.chunk);
        let mut places = origin.iter().zip(sizes);
        let is_edge = places.any(|(from, (size, chunk))| size - from < *chunk);
        let mask = match self.has_plain_edges && is_edge {
            true => u32::MAX,
            false => mask,
        };
        self.chunks.push(Chunk {
            origin,
            stored: start..end,
            mask,
        });
        Ok(())
    }

    /// Adds the chunks in a node of the tree at `at`. Levels decrease, so the walk
    /// ends.
    pub fn tree(
        &mut self,
        file: &mut File,
        at: u64,
        level: Option<u8>,
        nodes: &mut usize,
    ) -> Read<()> {
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
        for entry in 0..count {
            let key = start + entry * step;
            let child = file.address(key + key_bytes)?;
            let child = child.ok_or_else(|| broken("a node has an empty child"))?;
            if own_level > 0 {
                unless_refused(self.tree(file, child, Some(own_level - 1), nodes))?;
                continue;
            }
            let key = file.bytes(key, key_bytes)?;
            let stored = number(key.get(..4).unwrap_or_default());
            let mask = number(key.get(4..8).unwrap_or_default());
            let places = key.get(8..).unwrap_or_default().chunks(8);
            let origin = places.take(self.chunk.len()).map(number);
            self.add(file, origin.collect(), child, stored, mask_of(mask))?;
        }
        Ok(())
    }

    /// Adds the chunks of a dataset with one of the indexes of layout 4.
    pub fn indexed(
        &mut self,
        file: &mut File,
        flags: u8,
        fields: &mut Fields,
        version: u8,
    ) -> Read<()> {
        let at = fields.at;
        self.has_plain_edges = flags & PLAIN_EDGES != 0;
        let index = fields.u8()?;
        let (mut stored, mut mask) = (self.chunk_bytes, 0);
        if index == 1 && flags & SINGLE_IS_FILTERED != 0 {
            let length = if version > 4 { 8 } else { file.sizes.length };
            stored = fields.number(length)?;
            mask = fields.number(4)?;
        }
        fields.take(match index {
            1 | 2 => 0,
            // The bits of a page.
            3 => 1,
            // The numbers with which the head of the array begins.
            4 => 5,
            // The length of a node, and how full nodes are.
            5 => 6,
            _ => {
                let detail = format!("index {index} of chunks is unknown");
                return Err(refuse(Rule::Hdf5Layout, detail, at).into());
            }
        })?;
        let Some(start) = file.offset(fields.address()?) else {
            return Ok(());
        };
        match index {
            1 => {
                let origin = self.chunk.iter().map(|_| 0).collect();
                self.add(file, origin, start, stored, mask_of(mask))
            }
            2 => self.implicit(file, start),
            3 => self.fixed_array(file, start),
            4 => self.extensible_array(file, start),
            _ => self.record_tree(file, start),
        }
    }

    /// Adds the chunks from `start`, which follow each other.
    fn implicit(&mut self, file: &File, start: u64) -> Read<()> {
        let left = file.access.len_bytes().saturating_sub(start);
        for number in 0..self.chunk_count(start)? {
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

    /// Adds the chunks of the tree of version 2 at `at`.
    fn record_tree(&mut self, file: &mut File, at: u64) -> Read<()> {
        let kinds = [record::CHUNK, record::FILTERED_CHUNK];
        let records = Records::read(file, at, &kinds, Rule::Hdf5Chunk)?;
        let places_bytes = 8 * self.chunk.len() as u64;
        for record in records.iter() {
            let mut fields = file.fields(record, at, Rule::Hdf5Chunk);
            let start = file.offset(fields.address()?);
            let start = start.ok_or_else(|| {
                let detail = "a record of a tree of chunks has no chunk";
                refuse(Rule::Hdf5Chunk, detail, at)
            })?;
            let len_bytes = fields.bytes.len() as u64;
            let rest = len_bytes.checked_sub(places_bytes);
            let (stored, mask) = match (records.kind, rest) {
                (record::CHUNK, Some(0)) => (self.chunk_bytes, 0),
                (record::FILTERED_CHUNK, Some(rest @ 5..=12)) => {
                    (fields.number(rest - 4)?, fields.number(4)?)
                }
                _ => {
                    let detail = "the records of a tree of chunks have another length";
                    return Err(refuse(Rule::Hdf5Chunk, detail, at).into());
                }
            };
            let origin = self.chunk.iter().map(|chunk| {
                let place = fields.number(8);
                place.map(|place| place.saturating_mul(*chunk))
            });
            let origin = origin.collect::<Result<Vec<u64>, Error>>()?;
            self.add(file, origin, start, stored, mask_of(mask))?;
        }
        Ok(())
    }

    /// Returns the number of chunks up to the greatest sizes.
    pub fn chunk_count(&self, at: u64) -> Result<u64, Error> {
        let counts: Vec<u64> = self.numbering.iter().map(|(_, count)| *count).collect();
        let count = element_count(&counts).filter(|count| *count <= HDF5_OBJECTS as u64);
        count.ok_or_else(|| Error::limit("a dataset has too many chunks").at(at))
    }

    /// Returns whether exactly one dimension has no greatest size.
    pub fn has_one_endless_dimension(&self) -> bool {
        let sizes = self.space.greatest.iter();
        sizes.filter(|size| **size == u64::MAX).count() == 1
    }

    /// Adds chunk `number` of an index that numbers chunks up to the greatest sizes.
    /// Chunks outside of the shape are left out.
    pub fn numbered(
        &mut self,
        file: &File,
        number: u64,
        start: u64,
        stored: u64,
        mask: u32,
    ) -> Read<()> {
        let mut left = number;
        let mut origin: Vec<u64> = self.chunk.iter().map(|_| 0).collect();
        let slowest = self.numbering.last().map(|(dimension, _)| *dimension);
        for (dimension, count) in &self.numbering {
            let count = (*count).max(1);
            let place = match slowest == Some(*dimension) {
                true => left,
                false => left % count,
            };
            left /= count;
            if let (Some(from), Some(chunk)) =
                (origin.get_mut(*dimension), self.chunk.get(*dimension))
            {
                *from = place.saturating_mul(*chunk);
            }
        }
        let mut places = origin.iter().zip(&self.space.shape);
        if places.any(|(from, size)| from >= size) {
            return Ok(());
        }
        self.add(file, origin, start, stored, mask)
    }
}

/// Returns the filters that were left out, which are 32 bits.
pub(super) fn mask_of(number: u64) -> u32 {
    u32::try_from(number).unwrap_or_default()
}

/// Returns the dimensions in the order in which chunks are numbered, the fastest first,
/// with the number of chunks in each. The last dimension is the fastest, and one without
/// a greatest size is the slowest.
fn numbering(space: &Dataspace, chunk: &[u64]) -> Vec<(usize, u64)> {
    let sizes = space.greatest.iter().zip(&space.shape).zip(chunk);
    let counts = sizes.map(|((greatest, size), chunk)| {
        let greatest = if *greatest == u64::MAX {
            size
        } else {
            greatest
        };
        greatest.div_ceil((*chunk).max(1))
    });
    let mut all: Vec<(usize, u64)> = counts.enumerate().collect();
    all.reverse();
    let is_endless =
        |(dimension, _): &(usize, u64)| space.greatest.get(*dimension) == Some(&u64::MAX);
    if let Some(place) = all.iter().position(is_endless) {
        let slowest = all.remove(place);
        all.push(slowest);
    }
    all
}
