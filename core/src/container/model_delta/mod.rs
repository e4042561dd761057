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

use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use crate::bytes::Cursor;
use crate::frame::Edition;
use crate::{Error, Result, Rule};

mod base;
mod incremental;
mod read;
mod record;
mod trailer;
mod write;

pub use base::{Base, BaseHeader, DataDigest};
pub(crate) use base::{check_tensor, table_digest};
pub use incremental::{DeltaOptions, IncrementalDeltaPacker, Needs, PackedRecord};
pub(crate) use read::decode_payload;
pub use read::{DeltaTable, ModelDelta, Reference, RestoredCheck};
pub use record::{DeltaRecord, RecordHead, RecordKind, max_head_bytes};
pub use trailer::{
    RecordInfo, ShortDigest, TRAILER_END_BYTES, Trailer, TrailerContents, announce,
    fields_len_bytes, not_a_trailer, shortened, usual_bytes,
};
pub(crate) use trailer::{is_announced, lost_trailer, short_digest};
pub use write::{CodedRecord, DeltaPacker, code, pack, record_head};

/// The first bytes of the file.
pub const MAGIC: [u8; 4] = *b"Z4DM";
/// The version number of each edition.
const VERSIONS: [u8; 2] = [1, 2];

/// Returns the version of a file of this `edition`.
#[must_use]
pub fn version(edition: Edition) -> u8 {
    edition.number(VERSIONS)
}

/// The number of bytes before the header.
const HEADER_START: u64 = 13;
/// The number of bytes after the header: data length, digest of the base and
/// record count.
const AFTER_HEADER_BYTES: u64 = 20;

/// The fields before the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeltaPrefix {
    /// The edition, which determines the kinds of records allowed.
    pub edition: Edition,
    /// The range of the target's header in the file.
    pub header: Range<u64>,
    /// The length of the target's data buffer in bytes.
    pub data_len_bytes: u64,
    /// The digest of the base's data: BLAKE2b with an output of 8 bytes.
    pub base_digest: [u8; 8],
    /// The number of records.
    pub record_count: u32,
}

impl DeltaPrefix {
    /// Returns the length of the prefix, given the first bytes of a file of
    /// `file_len_bytes`.
    pub fn len_bytes(head: &[u8], file_len_bytes: u64) -> Result<u64> {
        let mut cursor = Cursor::new(head);
        cursor.expect_magic(&MAGIC, Rule::DeltaMagic, "Z4DM delta")?;
        Edition::read(&mut cursor, VERSIONS, Rule::DeltaVersion, "Z4DM delta")?;
        let header_len = cursor.u64("header length")?;
        header_len
            .checked_add(HEADER_START + AFTER_HEADER_BYTES)
            .filter(|&end| end <= file_len_bytes)
            .ok_or_else(|| {
                Error::malformed(
                    Rule::Truncated,
                    format!(
                        "a header of {header_len} bytes reaches past the end of the file; it \
                         looks cut off"
                    ),
                )
                .at(5)
            })
    }

    /// Parses the prefix from the first bytes of a file, at least
    /// [`DeltaPrefix::len_bytes`] of them.
    pub fn parse(head: &[u8], file_len_bytes: u64) -> Result<Self> {
        let end = Self::len_bytes(head, file_len_bytes)?;
        let header = HEADER_START..end - AFTER_HEADER_BYTES;
        let mut cursor = Cursor::new(head);
        cursor.take(MAGIC.len() as u64, "the magic")?;
        let edition = Edition::read(&mut cursor, VERSIONS, Rule::DeltaVersion, "Z4DM delta")?;
        cursor.take(
            header.end - cursor.position() as u64,
            "header of the target",
        )?;
        let data_len_bytes = cursor.u64("data length")?;
        Ok(Self {
            edition,
            header,
            data_len_bytes,
            base_digest: cursor.array("digest of the base")?,
            record_count: cursor.u32("record count")?,
        })
    }

    /// Returns the version of the file.
    #[must_use]
    pub fn version(&self) -> u8 {
        self.edition.number(VERSIONS)
    }

    /// Returns the offset of the first record.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.header.end + AFTER_HEADER_BYTES
    }

    /// Returns the length of the restored file in bytes.
    #[must_use]
    pub fn original_len_bytes(&self) -> u64 {
        (8 + self.header.end - self.header.start).saturating_add(self.data_len_bytes)
    }
}

/// Returns the prefix of a new file.
#[must_use]
fn write_prefix(
    edition: Edition,
    header: &[u8],
    data_len_bytes: u64,
    base_digest: [u8; 8],
    record_count: u32,
) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.push(edition.number(VERSIONS));
    out.extend_from_slice(&(header.len() as u64).to_le_bytes());
    out.extend_from_slice(header);
    out.extend_from_slice(&data_len_bytes.to_le_bytes());
    out.extend_from_slice(&base_digest);
    out.extend_from_slice(&record_count.to_le_bytes());
    out
}
