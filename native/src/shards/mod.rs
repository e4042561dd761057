//! Sharded checkpoints: an index with its shards in the same folder, or the checkpoints
//! in a folder (docs/formats/sharded.md).

mod bases;
mod checkpoint;
mod choice;
mod kind;
mod pack;
mod parts;
mod plan;
mod shard;
mod tree;
mod unpack;
mod verify;
mod work;

pub use checkpoint::{Shards, checkpoints_below};
pub use choice::{BASES, PACKED, PLAIN};
pub use pack::pack_shards;
pub use shard::packed_index_of;
pub use shard::unpacked_index;
pub use shard::unpacked_index_of;
pub use shard::{Index, Shard};
pub use unpack::unpack_shards;
pub use verify::verify_shards;
pub use work::Context;
