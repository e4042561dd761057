//! The trailer, which adds digests and an index to z4ai's format
//! (docs/formats/zstn-delta.md). z4ai ignores bytes after the last record.
//!
//! A bit in the flags byte that most payloads have announces the trailer
//! (section 5); z4ai and older readers ignore it. A delta that has lost its
//! whole trailer is then not mistaken for one that never had a trailer.

#[cfg(feature = "mixes")]
use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;
#[cfg(feature = "mixes")]
use core::ops::Range;

use serde::{Deserialize, Serialize};

#[cfg(feature = "mixes")]
use super::mixes::Mixes;
use super::record::RecordKind;
use super::source::{BaseRange, References, read_sources, write_sources};
#[cfg(feature = "mixes")]
use super::{DeltaPrefix, read::START_BYTES};
use crate::bytes::{Cursor, index};
use crate::container::tagged::{self, Tag};
use crate::digest::{self, Digest};
use crate::frame::Edition;
use crate::{Error, Result, Rule};

/// The last bytes of a file with a trailer.
const MAGIC: [u8; 8] = *b"ZSTNSEAL";
/// The number of bytes that end the trailer: the length of the fields and the
/// magic.
pub const TRAILER_END_BYTES: u64 = 16;
const TAG_BASE: Tag = *b"BASE";
const TAG_TARGET: Tag = *b"TRGT";
const TAG_HEADER: Tag = *b"HEAD";
const TAG_RECORDS: Tag = *b"RECS";
const TAG_REFERENCES: Tag = *b"REFS";
const TAG_SOURCES: Tag = *b"SRCS";
#[cfg(feature = "mixes")]
const TAG_MIXES: Tag = *b"MIXS";

/// The first 16 bytes of a BLAKE3 digest. This length makes it infeasible to
/// find another input with a given digest, which is the only property required
/// here.
pub type ShortDigest = [u8; 16];

/// Returns the short digest of the concatenated `pieces`.
#[must_use]
pub(crate) fn short_digest<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> ShortDigest {
    shortened(&digest::of_pieces(pieces))
}

/// Shortens a full digest.
#[must_use]
pub fn shortened(digest: &Digest) -> ShortDigest {
    let mut short = ShortDigest::default();
    short.copy_from_slice(&digest[..16]);
    short
}

/// The entry of a record in the trailer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordInfo {
    /// How the tensor is stored.
    pub kind: RecordKind,
    /// The length of the payload in bytes, 0 for a copy.
    pub payload_len_bytes: u64,
    /// The digest of the restored tensor.
    pub digest: ShortDigest,
    /// The bytes of the base that the tensor is decoded from; `None` for the
    /// tensor of the same name.
    pub source: Option<BaseRange>,
}

/// The optional fields of the trailer, which make single tensors readable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrailerContents {
    /// The digest of the target's header.
    pub header: ShortDigest,
    /// The entry of every record. They are in record order, which is data
    /// order.
    pub records: Vec<RecordInfo>,
}

/// The digests of a delta and the lengths of its payloads.
#[derive(Debug, Clone, PartialEq)]
pub struct Trailer {
    /// The BLAKE3 of the base's names and spans.
    pub base_table: [u8; 32],
    /// The BLAKE3 of the whole restored file.
    pub target: [u8; 32],
    /// The entries of the records; `None` for trailers that contain only the
    /// two digests above.
    pub contents: Option<TrailerContents>,
    /// The references of a delta that restores a file that is not safetensors.
    pub references: Option<References>,
    /// How the tensors of a base are computed from other checkpoints.
    #[cfg(feature = "mixes")]
    pub mixes: Option<Mixes>,
}

/// Returns the number of bytes at the end of a file that contain the whole trailer of
/// most files of this `edition` with a header of `header_len_bytes`
/// (docs/formats/zstn-delta.md 4). An entry of the header takes at least 50 bytes, an
/// entry of the records at most 25, and an entry of the sources at most 37.
#[must_use]
pub fn usual_bytes(header_len_bytes: u64, edition: Edition) -> u64 {
    256 + match edition {
        Edition::Plain | Edition::Extended => header_len_bytes / 2,
        Edition::Paired => header_len_bytes + header_len_bytes / 4,
    }
}

/// Returns the length of the trailer's fields, or `None` if there is no
/// trailer. `trailer` contains the last bytes of the file, and
/// `available_bytes` is the number of bytes between the header and them.
///
/// # Errors
/// [`Rule::DeltaSeal`] if the fields are longer than the available bytes or
/// than any trailer.
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
            format!("a trailer of {len} bytes does not match this file"),
        ));
    }
    Ok(Some(len))
}

impl Trailer {
    /// Parses the trailer from all bytes after the last record, or returns
    /// `None` if there are no bytes.
    ///
    /// # Errors
    /// [`Rule::DeltaSeal`] if the bytes are not a trailer. z4ai writes nothing
    /// there, so they must be a damaged trailer.
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

    /// Parses the fields of the trailer, which fill `fields`, in a file of this
    /// `edition`.
    pub(crate) fn from_fields(fields: &[u8], edition: Edition) -> Result<Self> {
        let bad = |detail| Error::malformed(Rule::DeltaSeal, detail);
        let known = [
            TAG_BASE,
            TAG_TARGET,
            TAG_HEADER,
            TAG_RECORDS,
            TAG_REFERENCES,
            TAG_SOURCES,
        ];
        let [base_table, target, header, records, references, sources] =
            tagged::read(fields, known, Rule::DeltaSeal)?;
        let (Some(base_table), Some(target)) = (base_table, target) else {
            return Err(bad("the trailer lacks a digest"));
        };
        let (base_table, target) = (base_table.array()?, target.array()?);
        let mut contents = match (header, records) {
            (Some(header), Some(records)) => Some(TrailerContents {
                header: header.array()?,
                records: read_records(records.bytes, edition)?,
            }),
            (None, None) => None,
            _ => return Err(bad("the trailer lacks a field")),
        };
        let references = match (references, &contents) {
            (None, _) => None,
            (Some(references), Some(contents)) => {
                let references = References::read(references.bytes)?;
                let referring = contents.records.iter().filter(|info| info.refers());
                if references.offsets.len() != referring.count() {
                    return Err(bad("the trailer lists other references than records"));
                }
                Some(references)
            }
            (Some(_), None) => return Err(bad("the trailer lacks a field")),
        };
        match (edition, sources, &mut contents, &references) {
            (Edition::Paired, Some(sources), Some(contents), None) => {
                read_sources(sources.bytes, &mut contents.records)?;
            }
            (Edition::Plain | Edition::Extended, None, ..) => {}
            _ => return Err(bad("the trailer does not match the version of the file")),
        }
        #[cfg(feature = "mixes")]
        let mixes = read_mixes(fields, contents.as_ref(), references.is_some())?;
        Ok(Self {
            base_table,
            target,
            contents,
            references,
            #[cfg(feature = "mixes")]
            mixes,
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
            if contents.records.iter().any(|info| info.source.is_some()) {
                field(TAG_SOURCES, &write_sources(&contents.records));
            }
        }
        if let Some(references) = &self.references {
            field(TAG_REFERENCES, &references.to_bytes());
        }
        #[cfg(feature = "mixes")]
        if let Some(mixes) = &self.mixes {
            field(TAG_MIXES, &mixes.to_bytes());
        }
        let len = out.len() as u64;
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&MAGIC);
        out
    }
}

/// Returns the number of checkpoints from which the base of a delta of `len_bytes` is
/// computed, `None` if the base is a checkpoint itself. Only the trailer is read. `fetch`
/// returns the bytes of a range.
///
/// # Errors
/// The errors of `fetch`, and of a file without a prefix or with a damaged trailer.
#[cfg(feature = "mixes")]
pub fn source_count<'f, E: From<Error>>(
    len_bytes: u64,
    fetch: &mut dyn FnMut(Range<u64>) -> Result<Cow<'f, [u8]>, E>,
) -> Result<Option<usize>, E> {
    let start = fetch(0..len_bytes.min(START_BYTES))?;
    let prefix_len = DeltaPrefix::len_bytes(&start, len_bytes)?;
    let Some(end) = len_bytes
        .checked_sub(TRAILER_END_BYTES)
        .filter(|end| *end >= prefix_len)
    else {
        return Ok(None);
    };
    let trailer = fetch(end..len_bytes)?;
    let Some(fields_len) = fields_len_bytes(&trailer, prefix_len, end - prefix_len)? else {
        return Ok(None);
    };
    let fields = fetch(end - fields_len..end)?;
    let [mixes] = tagged::read(&fields, [TAG_MIXES], Rule::DeltaSeal)?;
    let count = mixes.map(|mixes| Mixes::source_count(mixes.bytes));
    Ok(count.transpose()?)
}

#[cfg(feature = "mixes")]
fn read_mixes(
    fields: &[u8],
    contents: Option<&TrailerContents>,
    has_references: bool,
) -> Result<Option<Mixes>> {
    let [mixes] = tagged::read(fields, [TAG_MIXES], Rule::DeltaSeal)?;
    match (mixes, contents) {
        (None, _) => Ok(None),
        (Some(mixes), Some(contents)) if !has_references => {
            let read = Mixes::read(mixes.bytes, contents.records.len());
            read.map(Some)
        }
        (Some(_), _) => Err(Error::malformed(
            Rule::DeltaSeal,
            "the trailer combines bases that its other fields do not allow",
        )),
    }
}

/// Creates the error for bytes after the last record that are not a trailer.
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
        let kind = RecordKind::from_id(cursor.u8("record kind in the trailer")?, edition)?;
        let payload_len_bytes = match kind {
            RecordKind::Copy => 0,
            _ => cursor.u64("payload length in the trailer")?,
        };
        records.push(RecordInfo {
            kind,
            payload_len_bytes,
            digest: cursor.array("digest in the trailer")?,
            source: None,
        });
    }
    Ok(records)
}

fn write_records(records: &[RecordInfo]) -> Vec<u8> {
    let mut out = Vec::new();
    for record in records {
        out.push(record.kind as u8);
        if record.kind != RecordKind::Copy {
            out.extend_from_slice(&record.payload_len_bytes.to_le_bytes());
        }
        out.extend_from_slice(&record.digest);
    }
    out
}

/// The bit of the flags byte that announces a trailer. z4ai ignores it; bit 0,
/// the only one that z4ai uses, marks the NumPy fields of a frame as valid.
const TRAILER_FOLLOWS: u8 = 0x80;

/// Returns the offset of the flags byte in a payload, or `None` if the payload
/// has none.
fn flags_offset(kind: RecordKind, payload: &[u8]) -> Option<usize> {
    match (kind, payload.get(..4)?) {
        (RecordKind::Delta, b"Z4DL") | (RecordKind::Full, b"Z4AI") => Some(5),
        (RecordKind::Full, b"ZSP1" | b"ZPL1") => Some(6),
        _ => None,
    }
}

/// Sets the bit that announces the trailer. `payload` contains at least the
/// first bytes of a record's payload.
pub fn announce(kind: RecordKind, payload: &mut [u8]) {
    let offset = flags_offset(kind, payload);
    if let Some(flags) = offset.and_then(|offset| payload.get_mut(offset)) {
        *flags |= TRAILER_FOLLOWS;
    }
}

/// Returns whether the payload of a record announces a trailer.
#[must_use]
pub(crate) fn is_announced(kind: RecordKind, payload: &[u8]) -> bool {
    let offset = flags_offset(kind, payload);
    let flags = offset.and_then(|offset| payload.get(offset));
    flags.is_some_and(|flags| flags & TRAILER_FOLLOWS != 0)
}

/// Creates the error for a file that announces a trailer but has none.
pub(crate) fn lost_trailer() -> Error {
    Error::malformed(
        Rule::DeltaSeal,
        "the delta was packed with a trailer, and has none: it is cut off, get it again",
    )
}

impl TrailerContents {
    /// Fails if `header` is not the header that was packed.
    pub fn check_header(&self, header: &[u8]) -> Result<()> {
        if short_digest([header]) == self.header {
            return Ok(());
        }
        Err(Error::malformed(
            Rule::DeltaHeader,
            "the header is not the one that was packed: the delta is damaged",
        ))
    }
}

impl RecordInfo {
    /// Returns whether the record refers to bytes of the base.
    pub(crate) fn refers(&self) -> bool {
        self.kind != RecordKind::Full
    }

    /// Fails if the source of a tensor of `len_bytes` does not have the length that
    /// the record requires: for [`RecordKind::Grown`], a shorter one.
    pub(crate) fn check_source(&self, name: &str, len_bytes: u64) -> Result<()> {
        let fits = match (self.kind, &self.source) {
            (RecordKind::Grown, source) => {
                source.is_some_and(|source| (1..len_bytes).contains(&source.len_bytes))
            }
            (_, Some(source)) => source.len_bytes == len_bytes,
            (_, None) => true,
        };
        if fits {
            return Ok(());
        }
        Err(Error::malformed(
            Rule::DeltaSeal,
            "the range of the base in the trailer does not have the length of this tensor: the delta \
             is damaged",
        )
        .tensor(name))
    }

    /// Fails if `tensor` does not have the bytes that were packed.
    pub(crate) fn check_tensor(&self, name: &str, tensor: &[u8]) -> Result<()> {
        if short_digest([tensor]) == self.digest {
            return Ok(());
        }
        let rule = match self.kind {
            // The delta stores nothing but the digest of a copied tensor.
            RecordKind::Copy => Rule::DeltaReference,
            _ => Rule::DeltaTensor,
        };
        Err(Error::malformed(
            rule,
            "the restored tensor is not the one that was packed: the base is another one, or the \
             delta is damaged",
        )
        .tensor(name))
    }
}
