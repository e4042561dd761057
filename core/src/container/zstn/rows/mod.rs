//! Reads a part of a tensor from a part of its frame: the block table says
//! where the pieces of every plane are (docs/formats/zstn-integrity.md 5), and
//! the plan which of them a range of the tensor needs. The module does no I/O
//! and does not merge ranges over gaps; that is up to the caller that fetches
//! them.

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

/// Frames up to this size, in bytes, have no table: fetching one whole takes
/// hardly longer than fetching a block of each plane.
pub const MIN_FRAME_BYTES: u64 = 256 << 10;
