//! `Z4DM`: a checkpoint as its difference from another one
//! (docs/formats/z4ai-containers.md 4), followed by a trailer of ours
//! (docs/formats/zstn-delta.md).
//!
//! ```text
//! prefix    magic, version, header of the target, data length, digest of the base
//! records   one per tensor: a frame, a Z4DL delta, or a copy of the base's bytes
//! trailer      digests, and where the payloads are; ignored by z4ai
//! ```

mod base;
mod incremental;
mod prefix;
mod read;
mod record;
mod trailer;
mod write;

pub use base::{Base, BaseHeader, check_tensor, table_digest};
pub use incremental::{DeltaOptions, IncrementalDeltaPacker, Needs, PackedTensor};
pub use prefix::Prefix;
pub use read::{ModelDelta, decode_payload};
pub use record::{Head, Kind, Record, max_head_bytes};
pub use trailer::{
    Contents, RecordInfo, ShortDigest, TRAILER_END_BYTES, Trailer, fields_len_bytes, short_digest,
    usual_bytes,
};
pub use write::{Coded, DeltaPacker, pack};

/// First bytes of the file.
pub const MAGIC: [u8; 4] = *b"Z4DM";
const VERSION: u8 = 1;
