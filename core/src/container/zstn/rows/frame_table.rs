//! The table of a frame of any family that can be read in part
//! (docs/formats/zstn-integrity.md 5).

use alloc::vec::Vec;
use core::ops::Range;

use super::{BlockTable, FramePlan, PlaneSize};
#[cfg(feature = "extensions")]
use super::{LatticePlan, LatticeTable};
use crate::Result;
use crate::engine::Engine;
use crate::frame::Edition;

/// First byte of the table of a `ZXQ1` frame. That of a `Z4AI` frame begins with
/// its transform, 0 to 2; 3 is for `ZXD1`, which no ZSTN file holds.
#[cfg(feature = "extensions")]
const LATTICE: u8 = 4;

/// Where the parts of a frame are.
#[derive(Debug, Clone, PartialEq)]
pub enum FrameTable {
    /// Those of a `Z4AI` frame.
    Planes(BlockTable),
    /// Those of a `ZXQ1` frame.
    #[cfg(feature = "extensions")]
    Lattice(LatticeTable),
}

impl FrameTable {
    /// Returns the table of a stored frame; `None` if it would not help.
    #[must_use]
    pub fn of(frame: &[u8]) -> Option<Self> {
        #[cfg(feature = "extensions")]
        if let Some(table) = LatticeTable::of(frame) {
            return Some(Self::Lattice(table));
        }
        BlockTable::of(frame).map(Self::Planes)
    }

    /// Reads the table of a frame of `frame_len_bytes` that holds a tensor of
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

    /// Returns the bytes to write.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Planes(table) => table.to_bytes(),
            #[cfg(feature = "extensions")]
            Self::Lattice(table) => [&[LATTICE][..], &table.to_bytes()].concat(),
        }
    }

    /// Compares every part of `frame`, which has the length given to
    /// [`FrameTable::parse`], with its checksum. Offsets in errors are relative to
    /// the start of the frame.
    pub fn check(&self, frame: &[u8]) -> Result<()> {
        match self {
            Self::Planes(table) => table.check(frame),
            #[cfg(feature = "extensions")]
            Self::Lattice(table) => table.check(frame),
        }
    }

    /// Returns the size of each plane, in the order of the frame; of a `ZXQ1`
    /// frame those of its symbols.
    #[must_use]
    pub fn plane_sizes(&self) -> Vec<PlaneSize> {
        match self {
            Self::Planes(table) => table.plane_sizes(),
            #[cfg(feature = "extensions")]
            Self::Lattice(table) => table.symbols().plane_sizes(),
        }
    }

    /// Plans for the bytes `span` of the tensor.
    ///
    /// # Panics
    /// If `span` is not inside the tensor.
    #[must_use]
    pub fn plan(&self, span: Range<u64>) -> PartPlan {
        match self {
            Self::Planes(table) => PartPlan::Planes(FramePlan::new(table, span)),
            #[cfg(feature = "extensions")]
            Self::Lattice(table) => PartPlan::Lattice(table.plan(span)),
        }
    }
}

/// A range of a tensor's bytes, and the ranges of its frame to fetch.
#[derive(Debug, Clone, PartialEq)]
pub enum PartPlan {
    /// From a `Z4AI` frame.
    Planes(FramePlan),
    /// From a `ZXQ1` frame.
    #[cfg(feature = "extensions")]
    Lattice(LatticePlan),
}

impl PartPlan {
    /// Returns the ranges of the frame to fetch, in order; no two of them touch.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u64>] {
        match self {
            Self::Planes(plan) => plan.ranges(),
            #[cfg(feature = "extensions")]
            Self::Lattice(plan) => plan.ranges(),
        }
    }

    /// Decodes the planned range of the tensor from the bytes of
    /// [`PartPlan::ranges`]. Every part is compared with its checksum first.
    pub fn decode<E: Engine>(&self, engine: &E, fetched: &[&[u8]]) -> Result<Vec<u8>> {
        match self {
            Self::Planes(plan) => plan.decode(engine, fetched),
            #[cfg(feature = "extensions")]
            Self::Lattice(plan) => plan.decode(engine, fetched),
        }
    }
}
