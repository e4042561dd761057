//! Zip archives, in which NumPy and PyTorch store tensors (docs/formats/zip.md).
//!
//! ```text
//! for each member: local header, data, optional copy of lengths and checksum
//! directory    for each member: name, method, lengths, CRC-32, offset
//! end          offset and length of the directory
//! ```

use crate::bytes::{Cursor, index};
use crate::limits::ZIP_DIRECTORY_LEN_BYTES;
use crate::{Error, Result, Rule};

mod directory;
mod inflate;
mod member;

pub(crate) use directory::Archive;
pub(crate) use inflate::inflate_start;
#[cfg(feature = "keras")]
pub(crate) use member::checksum_after;
pub(crate) use member::{Member, Packing};

use alloc::format;
use core::ops::Range;

const END: [u8; 4] = *b"PK\x05\x06";
const END_LEN_BYTES: u64 = 22;
const END_64: [u8; 4] = *b"PK\x06\x06";
const END_64_LEN_BYTES: u64 = 56;
const LOCATOR_64: [u8; 4] = *b"PK\x06\x07";
const LOCATOR_64_LEN_BYTES: u64 = 20;

/// The largest distance of the end record from the end of the file: its own length,
/// and that of the longest comment.
pub(crate) const END_DISTANCE_BYTES: u64 = END_LEN_BYTES + u16::MAX as u64;

/// The number of bytes before the end record that may belong to its 64-bit version.
pub(crate) const END_64_DISTANCE_BYTES: u64 = LOCATOR_64_LEN_BYTES + END_64_LEN_BYTES;

/// The fields of the end of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    /// The range of the directory in the file.
    pub directory: Range<u64>,
    /// The number of members.
    pub count: u64,
    /// The number of bytes in front of the archive. All offsets in the archive are
    /// relative to its first byte.
    pub base: u64,
}

fn refuse(detail: impl Into<alloc::borrow::Cow<'static, str>>, at: u64) -> Error {
    Error::malformed(Rule::ZipEnd, detail).at(at)
}

impl End {
    /// Finds the end record in `tail`, the last bytes of a file, and parses it
    /// (docs/formats/zip.md 1). `tail` has to contain at least
    /// [`END_DISTANCE_BYTES`] and [`END_64_DISTANCE_BYTES`], or the whole file.
    pub(crate) fn parse(tail: &[u8], file_len_bytes: u64) -> Result<Self> {
        let tail_start = file_len_bytes - tail.len() as u64;
        let Some(found) = find(tail) else {
            let detail = "this is a zip archive without its end. The file is incomplete";
            return Err(refuse(detail, file_len_bytes));
        };
        let at = tail_start + found as u64;
        if tail_start > 0 && (found as u64) < END_64_DISTANCE_BYTES {
            let detail = "these are not enough bytes to parse the end of the zip archive";
            return Err(Error::invalid_input(detail));
        }
        let mut cursor = Cursor::new(tail.get(found + 4..).unwrap_or_default());
        let disks = [cursor.u16("a disk")?, cursor.u16("a disk")?];
        let counts = [cursor.u16("a count")?, cursor.u16("a count")?];
        let len_bytes = cursor.u32("the length of the directory")?;
        let offset = cursor.u32("the offset of the directory")?;
        let before = tail.get(..found).unwrap_or_default();
        let fields = match end_64(before, at)? {
            Some(fields) => {
                let agree = is_same(disks[0].into(), fields.disks[0].into(), u16::MAX.into())
                    && is_same(disks[1].into(), fields.disks[1].into(), u16::MAX.into())
                    && is_same(counts[0].into(), fields.counts[0], u16::MAX.into())
                    && is_same(counts[1].into(), fields.counts[1], u16::MAX.into())
                    && is_same(len_bytes.into(), fields.len_bytes, u32::MAX.into())
                    && is_same(offset.into(), fields.offset, u32::MAX.into());
                if !agree {
                    return Err(refuse("the two ends of the zip archive differ", at));
                }
                fields
            }
            None => Fields {
                at,
                disks: disks.map(u32::from),
                counts: counts.map(u64::from),
                len_bytes: len_bytes.into(),
                offset: offset.into(),
            },
        };
        fields.check()
    }
}

/// The fields of an end record of either width.
struct Fields {
    /// The position of the record, at which the directory ends.
    at: u64,
    disks: [u32; 2],
    counts: [u64; 2],
    len_bytes: u64,
    offset: u64,
}

impl Fields {
    fn check(self) -> Result<End> {
        let Self {
            at,
            disks,
            counts: [count, total],
            len_bytes,
            offset,
        } = self;
        if disks != [0, 0] || count != total {
            let detail = "the zip archive continues in other files. Join them first";
            return Err(refuse(detail, at));
        }
        let directory = |detail| Error::malformed(Rule::ZipDirectory, detail).at(at);
        let start = at.checked_sub(len_bytes);
        let base = start.and_then(|start| start.checked_sub(offset));
        let (Some(start), Some(base)) = (start, base) else {
            return Err(directory("the directory does not lie before its end"));
        };
        if len_bytes > ZIP_DIRECTORY_LEN_BYTES {
            let detail = format!(
                "the directory of the zip archive has {len_bytes} bytes; at most \
                 {ZIP_DIRECTORY_LEN_BYTES} are read"
            );
            return Err(Error::limit(detail).at(start));
        }
        if count > len_bytes / directory::ENTRY_LEN_BYTES {
            return Err(directory("the directory is too short for its members"));
        }
        Ok(End {
            directory: start..at,
            count,
            base,
        })
    }
}

/// Returns whether a narrow field agrees with its wide version. With the value
/// `unknown`, it refers to the latter.
fn is_same(narrow: u64, wide: u64, unknown: u64) -> bool {
    narrow == unknown || narrow == wide
}

/// Returns the position in `tail` of the last end record whose comment reaches the end
/// of the file.
fn find(tail: &[u8]) -> Option<usize> {
    let earliest = tail.len().saturating_sub(index(END_DISTANCE_BYTES));
    let latest = tail.len().checked_sub(index(END_LEN_BYTES))?;
    (earliest..=latest).rev().find(|&at| {
        let record = tail.get(at..).unwrap_or_default();
        let comment = record.get(20..).and_then(<[u8]>::first_chunk::<2>);
        let comment_len = comment.map(|bytes| usize::from(u16::from_le_bytes(*bytes)));
        record.starts_with(&END) && comment_len == Some(record.len() - index(END_LEN_BYTES))
    })
}

/// Parses the 64-bit end record at the end of `before`, the bytes in front of the
/// other one, which is at `at`. Returns `None` if the archive has none.
fn end_64(before: &[u8], at: u64) -> Result<Option<Fields>> {
    let locator = before.len().checked_sub(index(LOCATOR_64_LEN_BYTES));
    let Some((before, locator)) = locator.and_then(|at| before.split_at_checked(at)) else {
        return Ok(None);
    };
    if !locator.starts_with(&LOCATOR_64) {
        return Ok(None);
    }
    let start = before.len().checked_sub(index(END_64_LEN_BYTES));
    let record = start.and_then(|start| before.get(start..));
    let Some(record) = record.filter(|record| record.starts_with(&END_64)) else {
        let detail = "the 64-bit end of the zip archive is not where it is expected";
        return Err(refuse(detail, at));
    };
    let mut cursor = Cursor::new(record);
    cursor.take(16, "the head of the record")?;
    let disks = [cursor.u32("a disk")?, cursor.u32("a disk")?];
    let counts = [cursor.u64("a count")?, cursor.u64("a count")?];
    Ok(Some(Fields {
        at: at - LOCATOR_64_LEN_BYTES - END_64_LEN_BYTES,
        disks,
        counts,
        len_bytes: cursor.u64("the length of the directory")?,
        offset: cursor.u64("the offset of the directory")?,
    }))
}
