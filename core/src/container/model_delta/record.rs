//! The records (docs/formats/z4ai-containers.md 4.1).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use crate::bytes::Cursor;
use crate::{Error, Result, Rule};

const KIND_FULL: u8 = 0;
const KIND_DELTA: u8 = 1;
const KIND_COPY: u8 = 2;
/// A copy with an empty name.
const LEAST_RECORD_BYTES: u64 = 19;

/// Where a tensor's bytes come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A frame in these bytes of the file.
    Full(Range<u64>),
    /// A `Z4DL` delta against the base's tensor, in these bytes of the file.
    Delta(Range<u64>),
    /// The base's tensor of the same name.
    Copy,
}

/// One tensor of the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Name.
    pub name: String,
    /// Bytes of the target's data buffer.
    pub span: Range<u64>,
    /// Where they come from.
    pub content: Content,
}

/// Reads the record count and the records; offsets count from the start of
/// the cursor's bytes.
pub fn read(cursor: &mut Cursor, data_len_bytes: u64) -> Result<Vec<Record>> {
    let at = cursor.position() as u64;
    let count = u64::from(cursor.u32("record count")?);
    if count > cursor.remaining() as u64 / LEAST_RECORD_BYTES {
        return Err(Error::malformed(
            Rule::DeltaRecord,
            format!("{count} records do not fit into the file; it looks cut off"),
        )
        .at(at));
    }
    let records = (0..count)
        .map(|number| read_one(cursor, number))
        .collect::<Result<Vec<_>>>()?;
    check_coverage(&records, data_len_bytes)?;
    Ok(records)
}

fn read_one(cursor: &mut Cursor, number: u64) -> Result<Record> {
    let at = cursor.position() as u64;
    let bad = |rule, detail: String| Error::malformed(rule, detail).at(at);
    let cut = |_| {
        bad(
            Rule::DeltaRecord,
            format!("record {number} reaches past the end of the file; it looks cut off"),
        )
    };
    let name_len = cursor.u16("name length").map_err(cut)?;
    let name = cursor.take(name_len.into(), "name").map_err(cut)?;
    let name = core::str::from_utf8(name).map_err(|_| {
        bad(
            Rule::DeltaRecord,
            format!("the name of record {number} is not UTF-8"),
        )
    })?;
    let span = cursor.u64("span").map_err(cut)?..cursor.u64("span").map_err(cut)?;
    let kind = cursor.u8("record kind").map_err(cut)?;
    let content = match kind {
        KIND_COPY => Content::Copy,
        KIND_FULL | KIND_DELTA => {
            let len = cursor.u64("payload length").map_err(cut)?;
            let start = cursor.position() as u64;
            cursor.take(len, "payload").map_err(cut)?;
            let place = start..start + len;
            if kind == KIND_FULL {
                Content::Full(place)
            } else {
                Content::Delta(place)
            }
        }
        _ => {
            return Err(bad(
                Rule::DeltaKind,
                format!("record kind {kind} does not exist"),
            ));
        }
    };
    Ok(Record {
        name: name.into(),
        span,
        content,
    })
}

/// No hole and nothing beyond the end. Overlaps are legal here.
fn check_coverage(records: &[Record], data_len_bytes: u64) -> Result<()> {
    let mut order: Vec<&Record> = records.iter().collect();
    order.sort_by_key(|record| (record.span.start, record.span.end));
    let mut end = 0;
    for record in order {
        let Range {
            start,
            end: record_end,
        } = record.span;
        if start > end || record_end < start || record_end > data_len_bytes {
            return Err(Error::malformed(
                Rule::DeltaCoverage,
                format!("span [{start}, {record_end}) leaves a hole or leaves the data"),
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

/// Appends a record's fields up to its payload.
pub fn write_head(
    out: &mut Vec<u8>,
    name: &str,
    span: &Range<u64>,
    payload: Option<(bool, u64)>,
) -> Result<()> {
    let name_len = u16::try_from(name.len()).map_err(|_| {
        Error::invalid_input("a delta cannot hold names over 65535 bytes").tensor(name)
    })?;
    out.extend_from_slice(&name_len.to_le_bytes());
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(&span.start.to_le_bytes());
    out.extend_from_slice(&span.end.to_le_bytes());
    match payload {
        None => out.push(KIND_COPY),
        Some((is_delta, len)) => {
            out.push(if is_delta { KIND_DELTA } else { KIND_FULL });
            out.extend_from_slice(&len.to_le_bytes());
        }
    }
    Ok(())
}
