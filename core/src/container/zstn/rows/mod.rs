//! Reads of a part of a tensor from a part of its frame. The block table lists
//! the blocks of every plane (docs/formats/zstn-integrity.md 5), and a plan
//! selects the ones that a range of the tensor requires. This module does no
//! I/O and does not merge ranges over gaps; the caller that fetches them may.

use alloc::vec::Vec;
use core::ops::Range;

use crate::Result;
use crate::engine::Engine;
use crate::frame::Edition;

mod block_table;
#[cfg(feature = "extensions")]
mod lattice;
mod plan;

pub use block_table::{BlockTable, CHECKSUM_PIECE_BYTES, PlaneBlocks, PlaneSize};
#[cfg(feature = "extensions")]
pub use lattice::{LatticePlan, LatticeTable};
pub use plan::FramePlan;

/// The size in bytes up to which frames have no table: fetching such a frame
/// whole takes hardly longer than fetching a block of each plane.
pub(crate) const MIN_FRAME_BYTES: u64 = 256 << 10;

/// The first byte in the table of a `ZXQ1` frame. The table of a `Z4AI` frame
/// begins with its transform, 0 to 2, and 3 is reserved for `ZXD1`, which no
/// ZSTN file contains.
#[cfg(feature = "extensions")]
const LATTICE: u8 = 4;

/// The locations of the blocks of a frame.
#[derive(Debug, Clone, PartialEq)]
pub enum FrameTable {
    /// The table of a `Z4AI` frame.
    Planes(BlockTable),
    /// The table of a `ZXQ1` frame.
    #[cfg(feature = "extensions")]
    Lattice(LatticeTable),
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
        if let (Some((&LATTICE, bytes)), Edition::Extended) = (bytes.split_first(), edition) {
            let table = LatticeTable::parse(bytes, frame_len_bytes, tensor_len_bytes);
            return table.map(Self::Lattice).map_err(|error| error.within(1));
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
        }
    }

    /// Returns the size of each plane, in the order of the frame. A `ZXQ1`
    /// frame has the planes of its symbols.
    #[must_use]
    pub fn plane_sizes(&self) -> Vec<PlaneSize> {
        match self {
            Self::Planes(table) => table.plane_sizes(),
            #[cfg(feature = "extensions")]
            Self::Lattice(table) => table.symbols().plane_sizes(),
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
        }
    }

    /// Decodes the planned range of the tensor from the bytes of
    /// [`PartPlan::ranges`]. Every block is first compared with its checksum.
    pub fn decode<E: Engine>(&self, engine: &E, fetched: &[&[u8]]) -> Result<Vec<u8>> {
        match self {
            Self::Planes(plan) => plan.decode(engine, fetched),
            #[cfg(feature = "extensions")]
            Self::Lattice(plan) => plan.decode(engine, fetched),
        }
    }
}
