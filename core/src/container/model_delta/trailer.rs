//! The trailer, which adds what z4ai's format leaves out
//! (docs/formats/zstn-delta.md). z4ai ignores bytes after the last record.

use alloc::format;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::record::Kind;
use crate::bytes::{Cursor, index};
use crate::container::tagged::{self, Tag};
use crate::digest::{self, Digest};
use crate::frame::Edition;
use crate::{Error, Result, Rule};

/// The last bytes of a file with a trailer.
const MAGIC: [u8; 8] = *b"ZSTNSEAL";
/// Bytes of the field length and the magic, which end the file.
pub const TRAILER_END_BYTES: u64 = 16;
const TAG_BASE: Tag = *b"BASE";
const TAG_TARGET: Tag = *b"TRGT";
const TAG_HEADER: Tag = *b"HEAD";
const TAG_RECORDS: Tag = *b"RECS";

/// The first 16 bytes of a BLAKE3 output. They withstand the search for another
/// input with the same digest, which is all they are for.
pub type ShortDigest = [u8; 16];

/// Returns the short digest of bytes given in pieces.
#[must_use]
pub fn short_digest<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> ShortDigest {
    shortened(&digest::of_pieces(pieces))
}

/// Returns the short digest of bytes with this digest.
#[must_use]
pub fn shortened(digest: &Digest) -> ShortDigest {
    let mut short = ShortDigest::default();
    short.copy_from_slice(&digest[..16]);
    short
}

/// The entry of one record in the trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordInfo {
    /// How the tensor is stored.
    pub kind: Kind,
    /// Length of the payload, 0 for a copy.
    pub payload_len_bytes: u64,
    /// Digest of the restored tensor.
    pub digest: ShortDigest,
}

/// The part of the trailer that makes single tensors readable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// Digest of the target's header.
    pub header: ShortDigest,
    /// One for every record, in record order, which is the order of the data.
    pub records: Vec<RecordInfo>,
}

/// Digests of a delta, and the lengths of its payloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trailer {
    /// BLAKE3 of the base's names and spans.
    pub base_table: [u8; 32],
    /// BLAKE3 of the whole restored file.
    pub target: [u8; 32],
    /// Missing in trailers of the first kind.
    pub contents: Option<Contents>,
}

/// Returns the number of bytes, counted from the end of the file, that hold the
/// whole trailer of most files with a header of `header_len_bytes`: a record
/// takes at most half as much in the trailer as in the header.
#[must_use]
pub fn usual_bytes(header_len_bytes: u64) -> u64 {
    header_len_bytes / 2 + 256
}

/// Returns the length of the fields, from the last bytes of a file; `None` if
/// they do not end with a trailer. `available_bytes` are between the header and
/// these last bytes.
///
/// # Errors
/// [`Rule::DeltaSeal`] for a trailer that is longer than trailers are, or than the
/// bytes available.
pub fn fields_len_bytes(
    trailer: &[u8],
    header_len_bytes: u64,
    available_bytes: u64,
) -> Result<Option<u64>> {
    let Some(len) = trailer.strip_suffix(&MAGIC) else {
        return Ok(None);
    };
    let Some(len) = len.last_chunk::<8>() else {
        return Err(Error::malformed(Rule::DeltaSeal, "the trailer is cut off"));
    };
    let len = u64::from_le_bytes(*len);
    if len > available_bytes || len > header_len_bytes.saturating_add(65536) {
        return Err(Error::malformed(
            Rule::DeltaSeal,
            format!("a trailer of {len} bytes does not belong to this file"),
        ));
    }
    Ok(Some(len))
}

impl Trailer {
    /// Reads the trailer that fills the bytes after the last record; `None` if there
    /// are none.
    ///
    /// # Errors
    /// [`Rule::DeltaSeal`] for bytes that are not a trailer. z4ai writes none, so they
    /// are a damaged trailer.
    pub fn parse(
        after_records: &[u8],
        header_len_bytes: u64,
        edition: Edition,
    ) -> Result<Option<Self>> {
        if after_records.is_empty() {
            return Ok(None);
        }
        let available = (after_records.len() as u64).saturating_sub(TRAILER_END_BYTES);
        match fields_len_bytes(after_records, header_len_bytes, available)? {
            Some(len) if len == available => {
                Self::from_fields(&after_records[..index(available)], edition).map(Some)
            }
            _ => Err(not_a_trailer(after_records.len() as u64)),
        }
    }

    /// Reads the fields, which fill `fields`, of a file of this `edition`.
    pub fn from_fields(fields: &[u8], edition: Edition) -> Result<Self> {
        let bad = |detail| Error::malformed(Rule::DeltaSeal, detail);
        let known = [TAG_BASE, TAG_TARGET, TAG_HEADER, TAG_RECORDS];
        let [base_table, target, header, records] = tagged::read(fields, known, Rule::DeltaSeal)?;
        let (Some(base_table), Some(target)) = (base_table, target) else {
            return Err(bad("the trailer lacks a digest"));
        };
        let (base_table, target) = (base_table.array()?, target.array()?);
        let contents = match (header, records) {
            (Some(header), Some(records)) => Some(Contents {
                header: header.array()?,
                records: read_records(records.bytes, edition)?,
            }),
            (None, None) => None,
            _ => return Err(bad("the trailer lacks a field")),
        };
        Ok(Self {
            base_table,
            target,
            contents,
        })
    }

    /// Returns the bytes to write after the last record.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut field = |tag: Tag, value: &[u8]| tagged::write(&mut out, tag, value);
        field(TAG_BASE, &self.base_table);
        field(TAG_TARGET, &self.target);
        if let Some(contents) = &self.contents {
            field(TAG_HEADER, &contents.header);
            field(TAG_RECORDS, &write_records(&contents.records));
        }
        let len = out.len() as u64;
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&MAGIC);
        out
    }
}

/// Refuses the bytes after the last record of a file.
pub fn not_a_trailer(len_bytes: u64) -> Error {
    Error::malformed(
        Rule::DeltaSeal,
        format!(
            "the {len_bytes} bytes after the last record are not a trailer: the file is damaged, \
             get it again"
        ),
    )
}

fn read_records(field: &[u8], edition: Edition) -> Result<Vec<RecordInfo>> {
    let mut cursor = Cursor::new(field);
    let mut records = Vec::new();
    while cursor.remaining() > 0 {
        let kind = Kind::from_id(cursor.u8("record kind in the trailer")?, edition)?;
        let payload_len_bytes = match kind {
            Kind::Copy => 0,
            _ => cursor.u64("payload length in the trailer")?,
        };
        records.push(RecordInfo {
            kind,
            payload_len_bytes,
            digest: cursor.array("digest in the trailer")?,
        });
    }
    Ok(records)
}

fn write_records(records: &[RecordInfo]) -> Vec<u8> {
    let mut out = Vec::new();
    for record in records {
        out.push(record.kind as u8);
        if record.kind != Kind::Copy {
            out.extend_from_slice(&record.payload_len_bytes.to_le_bytes());
        }
        out.extend_from_slice(&record.digest);
    }
    out
}
