//! Part of a tensor out of part of its frame: the block table says where the
//! pieces of every plane lie (docs/formats/zstn-integrity.md 5), the plan
//! which of them some bytes of the tensor need. No I/O, no choice of ranges
//! to merge over gaps: that is the business of whoever fetches them.

mod plan;
mod table;
mod table_bytes;

pub use plan::Plan;
pub use table::{BlockTable, PlaneBlocks, PlaneSize, STORED_PIECE_BYTES};

/// Frames up to this size, in bytes, have no table: fetching one whole takes
/// hardly longer than fetching a block of each plane.
pub const LEAST_FRAME_BYTES: u64 = 256 << 10;
