//! The records of a delta (docs/formats/z4ai-containers.md 4.1).

use alloc::borrow::Cow;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::DeltaPrefix;
use crate::bytes::Cursor;
use crate::frame::Edition;
use crate::{Error, Result, Rule, sort};

/// The length of the shortest record: a copy with an empty name.
const MIN_RECORD_BYTES: u64 = 19;

/// Returns the length of the longest record head with a name of
/// `name_len_bytes`.
#[must_use]
pub fn max_head_bytes(name_len_bytes: u64) -> u64 {
    RecordKind::Full.head_bytes(name_len_bytes)
}

/// How a record stores its tensor. The discriminants are the numbers in the
/// file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordKind {
    /// The payload is a frame of the tensor.
    Full = 0,
    /// The payload is a `Z4DL` delta against the base's tensor.
    Delta = 1,
    /// There is no payload: the tensor equals the base's tensor.
    Copy = 2,
    /// The payload is a `ZXD1` difference from the base's tensor, which only
    /// extended files contain (docs/formats/extensions.md 3).
    Difference = 3,
    /// The payload consists of a beginning, which is decoded from a shorter
    /// tensor of the base, and a frame of the rest, which only paired files
    /// contain (docs/formats/zstn-delta.md 7).
    Grown = 4,
}

impl RecordKind {
    /// Returns the kind with number `id`.
    ///
    /// # Errors
    /// [`Rule::DeltaKind`] if files of this `edition` do not have such a kind.
    pub(crate) fn from_id(id: u8, edition: Edition) -> Result<Self> {
        let kinds = [
            Self::Full,
            Self::Delta,
            Self::Copy,
            Self::Difference,
            Self::Grown,
        ];
        let kind = kinds.into_iter().find(|kind| *kind as u8 == id);
        match kind {
            Some(kind) if kind.edition() <= edition => Ok(kind),
            Some(_) => Err(Error::malformed(
                Rule::DeltaKind,
                format!(
                    "record kind {id} in a file whose version does not allow it: the file is \
                     damaged, get it again"
                ),
            )),
            None => {
                let detail = format!("record kind {id} does not exist");
                Err(Error::malformed(Rule::DeltaKind, detail))
            }
        }
    }

    /// Returns the edition that a record of this kind requires of its file.
    #[must_use]
    pub fn edition(self) -> Edition {
        match self {
            Self::Full | Self::Delta | Self::Copy => Edition::Plain,
            Self::Difference => Edition::Extended,
            Self::Grown => Edition::Paired,
        }
    }

    /// Returns the length of the head of a record of this kind: the bytes
    /// before its payload.
    #[must_use]
    pub fn head_bytes(self, name_len_bytes: u64) -> u64 {
        let payload_len_field = if self == Self::Copy { 0 } else { 8 };
        MIN_RECORD_BYTES + name_len_bytes + payload_len_field
    }
}

/// The head of a record: the fields before its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordHead {
    /// The name of the tensor.
    pub name: String,
    /// The range of the tensor in the target's data buffer.
    pub span: Range<u64>,
    /// How the tensor is stored.
    pub kind: RecordKind,
    /// The length of the payload in bytes, 0 for a copy.
    pub payload_len_bytes: u64,
}

impl RecordHead {
    /// Reads the head of record `number` in a file of this `edition`.
    pub fn read(cursor: &mut Cursor, number: u64, edition: Edition) -> Result<Self> {
        let at = cursor.position() as u64;
        let cut = |_| {
            Error::malformed(
                Rule::DeltaRecord,
                format!("record {number} reaches past the end of the file; it looks cut off"),
            )
            .at(at)
        };
        let name_len = cursor.u16("name length").map_err(cut)?;
        let name = cursor.take(name_len.into(), "name").map_err(cut)?;
        let name = core::str::from_utf8(name).map_err(|_| {
            Error::malformed(
                Rule::DeltaRecord,
                format!("the name of record {number} is not UTF-8"),
            )
            .at(at)
        })?;
        let span = cursor.u64("span").map_err(cut)?..cursor.u64("span").map_err(cut)?;
        let kind = RecordKind::from_id(cursor.u8("record kind").map_err(cut)?, edition)
            .map_err(|error| error.at(at).tensor(name))?;
        let payload_len_bytes = match kind {
            RecordKind::Copy => 0,
            _ => cursor.u64("payload length").map_err(cut)?,
        };
        Ok(Self {
            name: name.into(),
            span,
            kind,
            payload_len_bytes,
        })
    }

    /// Returns the bytes of the head.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let name_len = u16::try_from(self.name.len()).map_err(|_| {
            Error::invalid_input("a delta cannot store names over 65535 bytes").tensor(&self.name)
        })?;
        let mut out = name_len.to_le_bytes().to_vec();
        out.extend_from_slice(self.name.as_bytes());
        out.extend_from_slice(&self.span.start.to_le_bytes());
        out.extend_from_slice(&self.span.end.to_le_bytes());
        out.push(self.kind as u8);
        if self.kind != RecordKind::Copy {
            out.extend_from_slice(&self.payload_len_bytes.to_le_bytes());
        }
        Ok(out)
    }
}

/// A record, which stores one tensor of the target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeltaRecord {
    /// The name of the tensor.
    pub name: String,
    /// The range of the tensor in the target's data buffer.
    pub span: Range<u64>,
    /// How the tensor is stored.
    pub kind: RecordKind,
    /// The range of the payload in the file; empty for a copy.
    pub payload: Range<u64>,
}

impl DeltaRecord {
    /// Returns the length of the tensor in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.span.end - self.span.start
    }
}

/// The number of bytes of a record that are fetched first. They contain the
/// whole head unless the name is unusually long.
const USUAL_HEAD_BYTES: u64 = 512;

/// Reads the records after `prefix` in a file of `file_len_bytes`. `fetch`
/// returns the bytes of a range; payloads are not fetched. Returns the records,
/// and the offset at which the last one ends.
///
/// # Errors
/// The errors of `fetch`, and the rule that a record breaks.
pub fn read<'f, E: From<Error>>(
    prefix: &DeltaPrefix,
    file_len_bytes: u64,
    fetch: &mut dyn FnMut(Range<u64>) -> Result<Cow<'f, [u8]>, E>,
) -> Result<(Vec<DeltaRecord>, u64), E> {
    let mut position = prefix.end();
    let count = u64::from(prefix.record_count);
    if count > file_len_bytes.saturating_sub(position) / MIN_RECORD_BYTES {
        let refusal = Error::malformed(
            Rule::DeltaRecord,
            format!("{count} records do not fit into the file; it looks cut off"),
        );
        return Err(refusal.at(position).into());
    }
    let mut records = Vec::new();
    for number in 0..count {
        let mut head_at = |len_bytes: u64| {
            let end = position.saturating_add(len_bytes).min(file_len_bytes);
            let bytes = fetch(position..end)?;
            let mut cursor = Cursor::new(&bytes);
            let head = RecordHead::read(&mut cursor, number, prefix.edition);
            Ok::<_, E>(head.map(|head| (head, cursor.position() as u64)))
        };
        let head = match head_at(USUAL_HEAD_BYTES)? {
            Ok(head) => Ok(head),
            // The name may be longer than usual, so the longest possible head
            // is fetched.
            Err(_) => head_at(max_head_bytes(u16::MAX.into()))?,
        };
        let (head, head_len) = head.map_err(|error| error.within(position))?;
        let start = position + head_len;
        if head.payload_len_bytes > file_len_bytes - start {
            let refusal = Error::malformed(
                Rule::DeltaRecord,
                format!(
                    "the payload of record {number} reaches past the end of the file; it looks cut off"
                ),
            );
            return Err(refusal.at(position).into());
        }
        position = start + head.payload_len_bytes;
        records.push(DeltaRecord {
            name: head.name,
            span: head.span,
            kind: head.kind,
            payload: start..position,
        });
    }
    check_names(&records)?;
    check_coverage(&records, prefix.data_len_bytes)?;
    Ok((records, position))
}

/// Fails if two records have the same name: a few bytes must not make a reader
/// decode the same tensor of the base repeatedly.
fn check_names(records: &[DeltaRecord]) -> Result<()> {
    let mut seen = BTreeSet::new();
    match records.iter().find(|record| !seen.insert(&record.name)) {
        None => Ok(()),
        Some(record) => Err(
            Error::malformed(Rule::DeltaRecord, "two records have this name").tensor(&record.name),
        ),
    }
}

/// Fails if the records leave gaps or reach past the end of the data. Overlaps
/// are legal.
fn check_coverage(records: &[DeltaRecord], data_len_bytes: u64) -> Result<()> {
    let spans = records.iter().map(|record| &record.span);
    let mut end = 0;
    for number in sort::by_key(spans.map(|span| (span.start, span.end))) {
        let record = &records[number];
        let Range {
            start,
            end: record_end,
        } = record.span;
        if start > end || record_end < start || record_end > data_len_bytes {
            return Err(Error::malformed(
                Rule::DeltaCoverage,
                format!("span [{start}, {record_end}) leaves a gap or exceeds the data"),
            )
            .tensor(&record.name));
        }
        end = end.max(record_end);
    }
    if end != data_len_bytes {
        return Err(Error::malformed(
            Rule::DeltaCoverage,
            format!("the records cover {end} of {data_len_bytes} bytes"),
        ));
    }
    Ok(())
}
