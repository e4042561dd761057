//! Reads a part of a tensor from a part of its frame. The block table lists the
//! blocks of every plane (docs/formats/zstn-integrity.md 5), and a plan selects
//! the ones that a range of the tensor requires. This module does no I/O and
//! does not merge ranges over gaps; the caller that fetches them may.

use alloc::borrow::Cow;
use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::ops::Range;

use crate::bytes::{self, index, part};
use crate::engine::Engine;
use crate::entropy::zstd;
use crate::frame::Edition;
use crate::frame::plane::{Method, Plane};
use crate::frame::z4ai::Transform;
use crate::{Error, Result};
use block_table::Block;

mod block_table;
#[cfg(feature = "extensions")]
mod intervals;
#[cfg(feature = "extensions")]
mod lattice;

pub use block_table::{BlockTable, CHECKSUM_PIECE_BYTES, PlaneBlocks, PlaneSize};
#[cfg(feature = "extensions")]
pub use intervals::{IntervalsPlan, IntervalsTable};
#[cfg(feature = "extensions")]
pub use lattice::{LatticePlan, LatticeTable};

/// The size in bytes up to which frames have no table: fetching such a frame
/// whole takes hardly longer than fetching a block of each plane.
pub(crate) const MIN_FRAME_BYTES: u64 = 256 << 10;

/// The first byte of the table of a `ZXQ1` and of a `ZXI1` frame. In the table of a `Z4AI`
/// frame, this byte is the transform, 0 to 2. The value 3 is reserved for `ZXD1`, which never
/// occurs in a ZSTN file.
#[cfg(feature = "extensions")]
const LATTICE: u8 = 4;
#[cfg(feature = "extensions")]
const INTERVALS: u8 = 5;

/// The locations of the blocks of a frame.
#[derive(Debug, Clone, PartialEq)]
pub enum FrameTable {
    /// The table of a `Z4AI` frame.
    Planes(BlockTable),
    /// The table of a `ZXQ1` frame.
    #[cfg(feature = "extensions")]
    Lattice(LatticeTable),
    /// The table of a `ZXI1` frame.
    #[cfg(feature = "extensions")]
    Intervals(IntervalsTable),
}

impl FrameTable {
    /// Returns the table of a stored frame, or `None` if the frame cannot be
    /// read in parts or is too short for that to help.
    #[must_use]
    pub fn of(frame: &[u8]) -> Option<Self> {
        #[cfg(feature = "extensions")]
        if let Some(table) = LatticeTable::of(frame) {
            return Some(Self::Lattice(table));
        }
        #[cfg(feature = "extensions")]
        if let Some(table) = IntervalsTable::of(frame) {
            return Some(Self::Intervals(table));
        }
        BlockTable::of(frame).map(Self::Planes)
    }

    /// Parses the table of a frame of `frame_len_bytes` that holds a tensor of
    /// `tensor_len_bytes`, in a file of this `edition`. Offsets in errors are
    /// relative to the start of `bytes`.
    pub fn parse(
        bytes: &[u8],
        frame_len_bytes: u64,
        tensor_len_bytes: u64,
        edition: Edition,
    ) -> Result<Self> {
        #[cfg(feature = "extensions")]
        if let (Some((&kind @ (LATTICE | INTERVALS), bytes)), Edition::Extended) =
            (bytes.split_first(), edition)
        {
            let table = match kind {
                LATTICE => {
                    LatticeTable::parse(bytes, frame_len_bytes, tensor_len_bytes).map(Self::Lattice)
                }
                _ => IntervalsTable::parse(bytes, frame_len_bytes, tensor_len_bytes)
                    .map(Self::Intervals),
            };
            return table.map_err(|error| error.within(1));
        }
        #[cfg(not(feature = "extensions"))]
        let _ = edition;
        BlockTable::parse(bytes, frame_len_bytes, tensor_len_bytes).map(Self::Planes)
    }

    /// Returns the bytes of the table.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Planes(table) => table.to_bytes(),
            #[cfg(feature = "extensions")]
            Self::Lattice(table) => [&[LATTICE][..], &table.to_bytes()].concat(),
            #[cfg(feature = "extensions")]
            Self::Intervals(table) => [&[INTERVALS][..], &table.to_bytes()].concat(),
        }
    }

    /// Compares every block of `frame` with its checksum. The frame must have
    /// the length given to [`FrameTable::parse`]. Offsets in errors are
    /// relative to the start of the frame.
    pub fn check(&self, frame: &[u8]) -> Result<()> {
        match self {
            Self::Planes(table) => table.check(frame),
            #[cfg(feature = "extensions")]
            Self::Lattice(table) => table.check(frame),
            #[cfg(feature = "extensions")]
            Self::Intervals(table) => table.check(frame),
        }
    }

    /// Returns the size of each plane, in the order of the frame. A `ZXQ1`
    /// frame has the planes of its symbols, a `ZXI1` frame has none.
    #[must_use]
    pub fn plane_sizes(&self) -> Vec<PlaneSize> {
        match self {
            Self::Planes(table) => table.plane_sizes(),
            #[cfg(feature = "extensions")]
            Self::Lattice(table) => table.symbols().plane_sizes(),
            #[cfg(feature = "extensions")]
            Self::Intervals(_) => Vec::new(),
        }
    }

    /// Plans how to read the bytes `span` of the tensor.
    ///
    /// # Panics
    /// If `span` does not lie inside the tensor.
    #[must_use]
    pub fn plan(&self, span: Range<u64>) -> PartPlan {
        match self {
            Self::Planes(table) => PartPlan::Planes(FramePlan::new(table, span)),
            #[cfg(feature = "extensions")]
            Self::Lattice(table) => PartPlan::Lattice(table.plan(span)),
            #[cfg(feature = "extensions")]
            Self::Intervals(table) => PartPlan::Intervals(table.plan(span)),
        }
    }
}

/// The plan for reading a range of a tensor: the ranges of its frame to fetch,
/// and how to decode them.
#[derive(Debug, Clone, PartialEq)]
pub enum PartPlan {
    /// The plan for a `Z4AI` frame.
    Planes(FramePlan),
    /// The plan for a `ZXQ1` frame.
    #[cfg(feature = "extensions")]
    Lattice(LatticePlan),
    /// The plan for a `ZXI1` frame.
    #[cfg(feature = "extensions")]
    Intervals(IntervalsPlan),
}

impl PartPlan {
    /// Returns the ranges of the frame to fetch, in ascending order; no two of
    /// them touch.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u64>] {
        match self {
            Self::Planes(plan) => plan.ranges(),
            #[cfg(feature = "extensions")]
            Self::Lattice(plan) => plan.ranges(),
            #[cfg(feature = "extensions")]
            Self::Intervals(plan) => plan.ranges(),
        }
    }

    /// Returns the number of bytes of the tensor that are decoded together: the
    /// tensor consists of bands of this length, and the range of a plan in one
    /// band takes hardly longer to decode than any shorter range.
    #[must_use]
    pub fn band_bytes(&self) -> u64 {
        match self {
            Self::Planes(plan) => plan.band_bytes(),
            #[cfg(feature = "extensions")]
            Self::Lattice(plan) => plan.band_bytes(),
            #[cfg(feature = "extensions")]
            Self::Intervals(plan) => plan.band_bytes(),
        }
    }

    /// Decodes the planned range of the tensor from the bytes of
    /// [`PartPlan::ranges`]. Every block is first compared with its checksum.
    pub fn decode<E: Engine>(&self, engine: &E, fetched: &[&[u8]]) -> Result<Vec<u8>> {
        match self {
            Self::Planes(plan) => plan.decode(engine, fetched),
            #[cfg(feature = "extensions")]
            Self::Lattice(plan) => plan.decode(engine, fetched),
            #[cfg(feature = "extensions")]
            Self::Intervals(plan) => plan.decode(engine, fetched),
        }
    }
}

/// The plan for reading a range of a tensor from a `Z4AI` frame: the ranges of
/// the frame to fetch, and how to decode them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FramePlan {
    /// The planned range of the tensor.
    span: Range<u64>,
    /// The range of the tensor that is joined from the planes. It consists of
    /// whole elements.
    joined: Range<u64>,
    transform: Transform,
    /// The bytes of `span` that lie after the last whole element.
    tail: Vec<u8>,
    /// The number of whole elements of the tensor.
    count: u64,
    /// The plan for every plane.
    planes: Vec<PlanePlan>,
    /// The ranges of the frame to fetch, in ascending order; no two of them
    /// touch.
    ranges: Vec<Range<u64>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct PlanePlan {
    /// The required ranges of the decoded plane, in ascending order. There are
    /// several if the plane stores the bytes of an element apart from each
    /// other.
    wanted: Vec<Range<u64>>,
    pieces: Vec<Piece>,
    /// The length of the whole plane.
    len_bytes: u64,
    /// The length of its longest block; `None` if the plane is stored uncompressed, so
    /// that any range of it can be read.
    block_bytes: Option<u64>,
}

/// A block to fetch, with its location in the frame and in the decoded plane.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    method: Method,
    stored: Range<u64>,
    decoded: Range<u64>,
    block: Block,
}

impl FramePlan {
    /// Plans how to read the bytes `span` of the tensor whose frame has this
    /// `table`.
    ///
    /// # Panics
    /// If `span` does not lie inside the tensor.
    #[must_use]
    pub fn new(table: &BlockTable, span: Range<u64>) -> Self {
        let body = table.body_len_bytes();
        let len = body + table.tail.len() as u64;
        assert!(span.start <= span.end && span.end <= len);
        let item_bytes = table.transform.item_bytes() as u64;
        let count = body / item_bytes;
        let in_body = span.start.min(body)..span.end.min(body);
        let elements = table.transform.joinable(&in_body, count);
        let planes = table.transform.layouts().zip(&table.planes);
        let planes: Vec<PlanePlan> = planes
            .map(|(layout, plane)| {
                let mut wanted = Vec::new();
                if !elements.is_empty() {
                    wanted
                        .extend((0..layout.parts).map(|part| layout.range(part, &elements, count)));
                }
                let pieces = pieces(plane, &wanted);
                let is_coded = plane.method != Method::Store;
                PlanePlan {
                    wanted,
                    pieces,
                    len_bytes: plane.len_bytes,
                    block_bytes: is_coded.then_some(plane.block_bytes),
                }
            })
            .collect();
        let tail = span.start.max(body) - body..span.end.max(body) - body;
        Self {
            joined: elements.start * item_bytes..elements.end * item_bytes,
            transform: table.transform,
            count,
            tail: part(&table.tail, tail).to_vec(),
            ranges: merged(&planes),
            planes,
            span,
        }
    }

    /// Returns the ranges of the frame to fetch, in ascending order; no two of
    /// them touch.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Returns the number of bytes of the tensor that are decoded together
    /// ([`PartPlan::band_bytes`]).
    #[must_use]
    pub fn band_bytes(&self) -> u64 {
        let planes = self.transform.layouts().zip(&self.planes);
        let in_block = planes.filter_map(|(layout, plane)| {
            let part_bytes = plane.len_bytes / layout.parts as u64;
            let elements = plane.block_bytes?.saturating_mul(self.count);
            Some(elements.checked_div(part_bytes)?.min(self.count))
        });
        let item_bytes = self.transform.item_bytes() as u64;
        in_block.max().unwrap_or(0).saturating_mul(item_bytes)
    }

    /// Decodes the planned range of the tensor from the bytes of
    /// [`FramePlan::ranges`]. Every block is first compared with its checksum.
    pub fn decode<E: Engine>(&self, engine: &E, fetched: &[&[u8]]) -> Result<Vec<u8>> {
        check_lens(&self.ranges, fetched)?;
        let planes = self
            .planes
            .iter()
            .map(|plane| self.decode_plane(engine, plane, fetched))
            .collect::<Result<Vec<_>>>()?;
        let views: Vec<&[u8]> = planes.iter().map(Vec::as_slice).collect();
        let mut out = bytes::buffer(self.joined.end - self.joined.start)?;
        // The padding after the last element is only checked by the read that
        // includes it.
        let parts = self.transform.parts(&views);
        self.transform.join(&parts, &mut out)?;
        let body_end = self.span.end.min(self.joined.end).max(self.joined.start);
        out.truncate(index(body_end - self.joined.start));
        if self.span.start > self.joined.start {
            let surplus = index(self.span.start - self.joined.start).min(out.len());
            out.drain(..surplus);
        }
        out.extend_from_slice(&self.tail);
        Ok(out)
    }

    /// Decodes the required ranges of a plane and concatenates them.
    fn decode_plane<E: Engine>(
        &self,
        engine: &E,
        plane: &PlanePlan,
        fetched: &[&[u8]],
    ) -> Result<Vec<u8>> {
        let pieces: Vec<&Piece> = plane.pieces.iter().collect();
        let decoded = engine
            .map(pieces, |piece| {
                let stored = self.stored(piece, fetched);
                piece
                    .decode(engine, stored)
                    .map_err(|error| error.within(piece.stored.start))
            })
            .into_iter()
            .collect::<Result<Vec<_>>>()?;
        // The blocks have been decoded, so they justify an allocation of this
        // size.
        let len: u64 = plane
            .wanted
            .iter()
            .map(|range| range.end - range.start)
            .sum();
        let mut out = bytes::with_capacity(len)?;
        for range in &plane.wanted {
            for (piece, bytes) in plane.pieces.iter().zip(&decoded) {
                let start = range.start.max(piece.decoded.start);
                let end = range.end.min(piece.decoded.end);
                if start < end {
                    let at = piece.decoded.start;
                    out.extend_from_slice(part(bytes, start - at..end - at));
                }
            }
        }
        Ok(out)
    }

    fn stored<'a>(&self, piece: &Piece, fetched: &[&'a [u8]]) -> &'a [u8] {
        let after = self
            .ranges
            .partition_point(|range| range.start <= piece.stored.start);
        let number = after.saturating_sub(1);
        let base = self.ranges[number].start;
        part(
            fetched[number],
            piece.stored.start - base..piece.stored.end - base,
        )
    }
}

/// Fails if the fetched bytes do not have the lengths of the planned `ranges`.
fn check_lens(ranges: &[Range<u64>], fetched: &[&[u8]]) -> Result<()> {
    let lens = ranges.iter().map(|range| range.end - range.start);
    if lens.eq(fetched.iter().map(|bytes| bytes.len() as u64)) {
        return Ok(());
    }
    Err(Error::invalid_input("these are not the planned bytes"))
}

impl Piece {
    fn decode<'a, E: Engine>(&self, engine: &E, stored: &'a [u8]) -> Result<Cow<'a, [u8]>> {
        self.block.check(stored)?;
        let len_bytes = self.decoded.end - self.decoded.start;
        if self.method != Method::Blocks {
            return Plane::new(self.method, len_bytes, stored)?.decode(engine);
        }
        zstd::check(stored, len_bytes)?;
        let mut out = bytes::buffer(len_bytes)?;
        zstd::decode(engine, stored, &mut out)?;
        Ok(Cow::Owned(out))
    }
}

/// Returns the blocks that contain any of the `wanted` bytes, each of them
/// once.
fn pieces(plane: &PlaneBlocks, wanted: &[Range<u64>]) -> Vec<Piece> {
    let is_wanted = |decoded: &Range<u64>| {
        let mut wanted = wanted.iter();
        wanted.any(|range| range.start < decoded.end && decoded.start < range.end)
    };
    let blocks = plane.stored().zip(&plane.blocks).enumerate();
    let pieces = blocks.map(|(number, (stored, block))| Piece {
        method: plane.method,
        stored,
        decoded: plane.decoded(number),
        block: *block,
    });
    pieces.filter(|piece| is_wanted(&piece.decoded)).collect()
}

/// Merges the blocks of all planes into ascending ranges that do not touch.
fn merged(planes: &[PlanePlan]) -> Vec<Range<u64>> {
    let pieces = planes.iter().flat_map(|plane| &plane.pieces);
    let stored = pieces.map(|piece| (piece.stored.start, piece.stored.end));
    let mut stored: Vec<(u64, u64)> = stored.collect();
    // Blocks are usually in order. Sorting with a heap takes a tenth of the code of the
    // standard sort, which no other function of a small reader needs.
    if !stored.is_sorted() {
        stored = BinaryHeap::from(stored).into_sorted_vec();
    }
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for (start, end) in stored {
        match ranges.last_mut() {
            Some(last) if start <= last.end => last.end = last.end.max(end),
            _ => ranges.push(start..end),
        }
    }
    ranges
}
