//! `Z4DM`: a checkpoint stored as a delta against another one
//! (docs/formats/z4ai-containers.md 4), followed by zstn's own trailer
//! (docs/formats/zstn-delta.md). Version 2 adds a kind of record
//! (docs/formats/extensions.md 3).
//!
//! ```text
//! prefix    magic, version, header of the target, data length, digest of the base
//! records   one per tensor: a frame, a difference, or a copy of the base's bytes
//! trailer   digests and the lengths of the payloads; ignored by z4ai
//! ```

mod announcement;
mod base;
mod incremental;
mod prefix;
mod read;
mod record;
mod trailer;
mod write;

pub use announcement::{announce, is_announced};
pub use base::{Base, BaseHeader, DataDigest, check_tensor, table_digest};
pub use incremental::{DeltaOptions, IncrementalDeltaPacker, Needs, PackedTensor};
pub use prefix::Prefix;
pub use read::{DeltaTable, ModelDelta, Reference, RestoredCheck, decode_payload, lost_trailer};
pub use record::{Head, Kind, Record, max_head_bytes};
pub use trailer::{
    Contents, RecordInfo, ShortDigest, TRAILER_END_BYTES, Trailer, fields_len_bytes, not_a_trailer,
    short_digest, shortened, usual_bytes,
};
pub use write::{Coded, DeltaPacker, code, pack, record_head};

use crate::frame::Edition;

/// The first bytes of the file.
pub const MAGIC: [u8; 4] = *b"Z4DM";
/// The version number of each edition.
const VERSIONS: [u8; 2] = [1, 2];

/// Returns the version of a file of this `edition`.
#[must_use]
pub fn version(edition: Edition) -> u8 {
    edition.number(VERSIONS)
}
