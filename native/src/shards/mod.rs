//! Sharded checkpoints: an index with its shards in the same folder, or the checkpoints
//! in a folder (docs/formats/sharded.md).

mod checkpoint;
mod choice;
mod folder;
mod plan;
mod shard;
mod tree;
mod verify;
mod work;

pub use checkpoint::{Shards, checkpoints_below};
pub use choice::{BASES, PACKED, PLAIN};
pub(crate) use folder::{pack_shards, unpack_shards};
#[cfg(feature = "async")]
pub(crate) use shard::is_absent;
pub(crate) use shard::stem;
pub use shard::{Index, Shard, packed_index_of, unpacked_index, unpacked_index_of};
pub(crate) use verify::verify_shards;
