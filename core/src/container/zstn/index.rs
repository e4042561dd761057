//! The index (docs/formats/z4ai-containers.md 2.2 and 2.7).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use crate::bytes::Cursor;
use crate::container::safetensors;
use crate::{Error, Result, Rule, sort};

const KIND_FRAME: u8 = 0;
const KIND_REF: u8 = 1;
/// The length of the shortest record: an alias with an empty name.
const MIN_RECORD_BYTES: u64 = 23;

/// The source of a record's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordContent {
    /// The bytes are decoded from a frame in this range of the file.
    Frame(Range<u64>),
    /// The bytes are shared with the record of this number, which has a frame.
    Alias(usize),
}

/// A record of the index, which describes one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexRecord {
    /// The name, as in the header with JSON escapes resolved.
    pub name: String,
    /// The range of the tensor in the original data buffer.
    pub span: Range<u64>,
    /// The source of the tensor's bytes.
    pub content: RecordContent,
}

/// A checked index: the spans tile the data buffer, aliases refer to frames,
/// and the frames lie where frames are allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerIndex {
    records: Vec<IndexRecord>,
}

impl ContainerIndex {
    /// Parses the index `bytes`. It begins at offset `frames.end` of the file,
    /// and the frames must lie in `frames`. The data buffer is `data_len_bytes`
    /// long.
    pub fn parse(bytes: &[u8], frames: Range<u64>, data_len_bytes: u64) -> Result<Self> {
        let base = frames.end;
        let (records, rest) = read_records(bytes, &frames).map_err(|e| e.within(base))?;
        for record in &records {
            let RecordContent::Alias(target) = record.content else {
                continue;
            };
            check_ref(record, records.get(target)).map_err(|e| e.tensor(&record.name))?;
        }
        check_tiling(&records, data_len_bytes)?;
        // An error in the records explains more than the number of bytes after
        // them, so this check comes last.
        if rest > 0 {
            return Err(Error::malformed(
                Rule::ZstnIndexCount,
                format!("{rest} bytes follow the last record of the index: the file is damaged"),
            )
            .at(base + bytes.len() as u64 - rest));
        }
        Ok(Self { records })
    }

    /// Returns the records in file order.
    #[must_use]
    pub fn records(&self) -> &[IndexRecord] {
        &self.records
    }

    /// Returns the number of the record whose frame `record` uses, and the
    /// range of that frame in the file. The number differs from `record` for an
    /// alias.
    #[must_use]
    pub fn frame(&self, record: usize) -> (usize, Range<u64>) {
        let target = match self.records[record].content {
            RecordContent::Frame(_) => record,
            RecordContent::Alias(target) => target,
        };
        match &self.records[target].content {
            RecordContent::Frame(range) => (target, range.clone()),
            // `parse` refuses aliases of aliases.
            RecordContent::Alias(_) => (target, 0..0),
        }
    }

    /// Checks that the frames leave no gap from offset `start` on. Returns the
    /// offset at which the last frame ends.
    pub(super) fn check_frames(&self, start: u64) -> Result<u64> {
        let contents = self.records.iter().map(|record| &record.content);
        let ranges: Vec<_> = contents
            .filter_map(|content| match content {
                RecordContent::Frame(range) => Some(range),
                RecordContent::Alias(_) => None,
            })
            .collect();
        let mut end = start;
        for number in sort::by_key(ranges.iter().map(|range| (range.start, range.end))) {
            let range = ranges[number];
            if range.start > end {
                return Err(unexplained(end..range.start));
            }
            end = end.max(range.end);
        }
        Ok(end)
    }

    /// Checks that the index and the JSON header list the same tensors, which
    /// reading by name requires. Returns the header's tensor for every record.
    pub fn agree<'h>(
        &self,
        header: &'h safetensors::Header,
    ) -> Result<Vec<&'h safetensors::HeaderTensor>> {
        let tensors = header.tensors.iter();
        let mut by_name = sort::map(tensors.map(|tensor| (tensor.name.as_str(), tensor)));
        let mismatch =
            |name: &str, detail| Error::malformed(Rule::ZstnHeaderMismatch, detail).tensor(name);
        let found = self
            .records
            .iter()
            .map(|record| {
                let tensor = by_name.remove(record.name.as_str()).ok_or_else(|| {
                    mismatch(
                        &record.name,
                        "the header does not list this tensor, or the index lists it twice",
                    )
                })?;
                if tensor.span != record.span {
                    return Err(mismatch(
                        &record.name,
                        "index and header disagree about this tensor's bytes",
                    ));
                }
                Ok(tensor)
            })
            .collect::<Result<Vec<_>>>()?;
        match by_name.into_keys().next() {
            Some(name) => Err(mismatch(
                name,
                "the header lists this tensor, the index does not",
            )),
            None => Ok(found),
        }
    }
}

/// Creates the error for bytes that belong to no section of the file.
pub(super) fn unexplained(bytes: Range<u64>) -> Error {
    Error::malformed(
        Rule::ZstnFramePlace,
        format!(
            "{} bytes belong to no tensor of the index: the file is damaged, get it again",
            bytes.end - bytes.start
        ),
    )
    .at(bytes.start)
}

/// Returns the records, and the number of bytes after them.
fn read_records(bytes: &[u8], frames: &Range<u64>) -> Result<(Vec<IndexRecord>, u64)> {
    let mut cursor = Cursor::new(bytes);
    let count = u64::from(cursor.u32("record count")?);
    if count > cursor.remaining() as u64 / MIN_RECORD_BYTES {
        return Err(Error::malformed(
            Rule::ZstnIndexCount,
            format!(
                "{count} records do not fit into an index of {} bytes",
                bytes.len()
            ),
        )
        .at(0));
    }
    let records = (0..count)
        .map(|number| read_record(&mut cursor, frames, number))
        .collect::<Result<Vec<_>>>()?;
    Ok((records, cursor.remaining() as u64))
}

fn read_record(cursor: &mut Cursor, frames: &Range<u64>, number: u64) -> Result<IndexRecord> {
    let at = cursor.position() as u64;
    let bad = |rule, detail: String| Error::malformed(rule, detail).at(at);
    let short = |_| {
        bad(
            Rule::ZstnRecord,
            format!("record {number} reaches past the end of the index"),
        )
    };
    let name_len = cursor.u16("name length").map_err(short)?;
    let name = cursor.take(name_len.into(), "name").map_err(short)?;
    let name = core::str::from_utf8(name).map_err(|_| {
        bad(
            Rule::ZstnName,
            format!("the name of record {number} is not UTF-8"),
        )
    })?;
    let span = cursor.u64("span").map_err(short)?..cursor.u64("span").map_err(short)?;
    let content = match cursor.u8("record kind").map_err(short)? {
        KIND_FRAME => {
            let offset = cursor.u64("frame offset").map_err(short)?;
            let len = cursor.u64("frame length").map_err(short)?;
            match offset.checked_add(len) {
                Some(end) if len > 0 && offset >= frames.start && end <= frames.end => {
                    RecordContent::Frame(offset..end)
                }
                _ => {
                    return Err(bad(
                        Rule::ZstnFramePlace,
                        format!(
                            "a frame of {len} bytes at {offset} is outside the frames' section"
                        ),
                    )
                    .tensor(name));
                }
            }
        }
        KIND_REF => RecordContent::Alias(cursor.u32("reference").map_err(short)? as usize),
        kind => {
            return Err(
                bad(Rule::ZstnKind, format!("record kind {kind} does not exist")).tensor(name),
            );
        }
    };
    Ok(IndexRecord {
        name: name.into(),
        span,
        content,
    })
}

fn check_ref(record: &IndexRecord, target: Option<&IndexRecord>) -> Result<()> {
    let Some(target) = target.filter(|t| matches!(t.content, RecordContent::Frame(_))) else {
        return Err(Error::malformed(
            Rule::ZstnRefTarget,
            "the tensor refers to a record that has no frame",
        ));
    };
    // Wrapping is harmless: the tiling check refuses spans that end before they
    // start.
    let len = |span: &Range<u64>| span.end.wrapping_sub(span.start);
    if len(&record.span) != len(&target.span) {
        return Err(Error::malformed(
            Rule::ZstnRefLength,
            format!(
                "the tensor refers to `{}`, which has a different length",
                target.name
            ),
        ));
    }
    Ok(())
}

/// Fails for gaps and overlaps. This bounds the total output by the length of
/// the data.
fn check_tiling(records: &[IndexRecord], data_len_bytes: u64) -> Result<()> {
    let spans = records.iter().map(|record| &record.span);
    let mut end = 0;
    for number in sort::by_key(spans.map(|span| (span.start, span.end))) {
        let record = &records[number];
        if record.span.start != end || record.span.end < end {
            return Err(Error::malformed(
                Rule::ZstnTiling,
                format!(
                    "span [{}, {}) is not a range that begins at {end}",
                    record.span.start, record.span.end
                ),
            )
            .tensor(&record.name));
        }
        end = record.span.end;
    }
    if end != data_len_bytes {
        return Err(Error::malformed(
            Rule::ZstnTiling,
            format!("the spans end at {end}, the data at {data_len_bytes}"),
        ));
    }
    Ok(())
}

/// Appends a record to an index being written.
pub(super) fn write_record(out: &mut Vec<u8>, record: &IndexRecord) -> Result<()> {
    let name_len = u16::try_from(record.name.len()).map_err(|_| {
        Error::invalid_input("a ZSTN index cannot store names over 65535 bytes")
            .tensor(&record.name)
    })?;
    out.extend_from_slice(&name_len.to_le_bytes());
    out.extend_from_slice(record.name.as_bytes());
    out.extend_from_slice(&record.span.start.to_le_bytes());
    out.extend_from_slice(&record.span.end.to_le_bytes());
    match &record.content {
        RecordContent::Frame(range) => {
            out.push(KIND_FRAME);
            out.extend_from_slice(&range.start.to_le_bytes());
            out.extend_from_slice(&(range.end - range.start).to_le_bytes());
        }
        RecordContent::Alias(target) => {
            let target = u32::try_from(*target)
                .map_err(|_| Error::invalid_input("a ZSTN index has at most 2^32 records"))?;
            out.push(KIND_REF);
            out.extend_from_slice(&target.to_le_bytes());
        }
    }
    Ok(())
}
