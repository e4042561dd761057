//! Reads of a part of a tensor from a part of its frame. The block table lists
//! the blocks of every plane (docs/formats/zstn-integrity.md 5), and a plan
//! selects the ones that a range of the tensor requires. This module does no
//! I/O and does not merge ranges over gaps; the caller that fetches them may.

mod frame_table;
#[cfg(feature = "extensions")]
mod lattice;
mod plan;
mod table;
mod table_bytes;

pub use frame_table::{FrameTable, PartPlan};
#[cfg(feature = "extensions")]
pub use lattice::{LatticePlan, LatticeTable};
pub use plan::FramePlan;
pub use table::{BlockTable, CHECKSUM_PIECE_BYTES, PlaneBlocks, PlaneSize};

/// The size in bytes up to which frames have no table: fetching such a frame
/// whole takes hardly longer than fetching a block of each plane.
pub const MIN_FRAME_BYTES: u64 = 256 << 10;
