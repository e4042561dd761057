//! The stored parts of tensors, and the decoding of their encodings
//! (docs/formats/ztensor.md 5, 7, 8.2 and 8.3).

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use serde::{Deserialize, Serialize};

use super::checksum::{Checksum, Covers};
use super::tensor::ElementType;
use crate::bytes::{self, Cursor, index};
use crate::container::foreign::byte_order::{self, ByteOrder};
use crate::engine::Engine;
use crate::entropy::zstd;
use crate::{Error, Result, Rule};

/// The encoding of a part's elements in its stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartCoding {
    /// Uncompressed, in this byte order. Only version 0.1 has [`ByteOrder::Big`].
    Raw(ByteOrder),
    /// One zstd frame: versions 0.1 and 1.
    Zstd,
    /// Several zstd frames, followed by a table of them: version 2.
    SeekableZstd,
}

/// A part of a tensor, which is one blob of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The role of the part in the tensor: `data`, `values`, `indices`, …
    pub role: String,
    /// The type of the elements.
    pub element: ElementType,
    /// The range of the part in the file, or in the shard that contains it.
    pub stored: Range<u64>,
    /// The encoding of the stored bytes.
    pub coding: PartCoding,
    /// The length of the decoded part in bytes, if the file states it.
    pub decoded_len_bytes: Option<u64>,
    /// The expected checksum, if the file has one.
    pub checksum: Option<Checksum>,
    /// The name of the shard, a separate file, that contains the part, if one
    /// does (version 2).
    pub shard: Option<String>,
    /// The logical type, if this library does not know it (version 2). Such a
    /// part is listed with the dtype that stores it, and cannot be decoded.
    pub unknown_type: Option<String>,
    /// The encoding, if this library does not know it (version 2). Such a part
    /// cannot be decoded.
    pub unknown_encoding: Option<String>,
}

impl Part {
    /// Returns the number of bytes stored for the part.
    #[must_use]
    pub fn stored_len_bytes(&self) -> u64 {
        self.stored.end - self.stored.start
    }

    /// Returns the decoded length, if it follows from the `stored` bytes
    /// without decoding them.
    pub(crate) fn expected_len_bytes(&self, stored: &[u8]) -> Result<Option<u64>> {
        match (self.decoded_len_bytes, self.coding) {
            (Some(len), _) => Ok(Some(len)),
            (None, PartCoding::Raw(_)) => Ok(Some(stored.len() as u64)),
            (None, PartCoding::Zstd) => zstd::content_bytes(stored),
            (None, PartCoding::SeekableZstd) => Ok(None),
        }
    }

    /// Returns whether this library knows the element type and the encoding.
    pub(super) fn is_known(&self) -> bool {
        self.unknown_type.is_none() && self.unknown_encoding.is_none()
    }

    /// Returns the number of elements that follows from the decoded length;
    /// `None` if the file does not state it, or it ends inside an element.
    pub(super) fn element_count(&self) -> Option<u64> {
        let (len_bytes, width) = (self.decoded_len_bytes?, self.element.width_bytes()? as u64);
        len_bytes.is_multiple_of(width).then(|| len_bytes / width)
    }

    /// Checks that the part has the length of `count` elements, unless its
    /// element type is not known. A count of `None` fits no length.
    ///
    /// # Errors
    /// [`Rule::ZTensorLength`].
    pub(super) fn check_len(&self, count: Option<u64>) -> Result<()> {
        let expected = count.and_then(|count| self.element.len_bytes(count));
        if self.unknown_type.is_some() || expected.is_some() && expected == self.decoded_len_bytes {
            return Ok(());
        }
        Err(Error::malformed(
            Rule::ZTensorLength,
            format!(
                "the length of the part `{}` does not match the shape and dtype of the tensor",
                self.role.escape_default()
            ),
        ))
    }

    /// Decodes the `stored` bytes to exactly `len_bytes` in little-endian
    /// order, and compares them with the checksum. Borrows the bytes if they
    /// need no conversion.
    pub fn decode<'a, E: Engine>(
        &self,
        engine: &E,
        stored: &'a [u8],
        len_bytes: u64,
    ) -> Result<Cow<'a, [u8]>> {
        if let Some(shard) = &self.shard {
            return Err(Error::unsupported(format!(
                "`{}` is stored in another file, the shard `{}`, which this version does not read",
                self.role,
                shard.escape_default()
            )));
        }
        for (what, unknown) in [
            ("element type", &self.unknown_type),
            ("encoding", &self.unknown_encoding),
        ] {
            if let Some(name) = unknown {
                return Err(Error::unsupported(format!(
                    "this version cannot read the {what} `{}`",
                    name.escape_default()
                )));
            }
        }
        if stored.len() as u64 != self.stored_len_bytes() {
            return Err(Error::invalid_input(
                "the input does not have the part's stored length",
            ));
        }
        if let Some(checksum) = &self.checksum {
            checksum.check(Covers::Stored, stored)?;
        }
        if let Some(promised) = self.decoded_len_bytes.filter(|&len| len != len_bytes) {
            return Err(wrong_length(promised, len_bytes));
        }
        let decoded = match self.coding {
            PartCoding::Raw(order) => {
                if stored.len() as u64 != len_bytes {
                    return Err(wrong_length(stored.len() as u64, len_bytes));
                }
                match (order, self.element.width_bytes()) {
                    (ByteOrder::Big, Some(width)) if width > 1 => swapped(stored, width)?.into(),
                    _ => Cow::Borrowed(stored),
                }
            }
            PartCoding::Zstd => {
                zstd::check(stored, len_bytes)?;
                let mut out = bytes::buffer(len_bytes)?;
                zstd::decode(engine, stored, &mut out)?;
                out.into()
            }
            PartCoding::SeekableZstd => decode(engine, stored, len_bytes)?.into(),
        };
        if let Some(checksum) = &self.checksum {
            checksum.check(Covers::Decoded, &decoded)?;
        }
        Ok(decoded)
    }
}

fn wrong_length(actual: u64, expected: u64) -> Error {
    Error::malformed(
        Rule::ZTensorLength,
        format!("{actual} bytes are stored where shape and dtype require {expected}"),
    )
}

/// Reverses the bytes of each element of `width` bytes.
///
/// # Errors
/// [`Rule::ZTensorLength`] if the last element is incomplete.
pub(super) fn swapped(elements: &[u8], width: usize) -> Result<Vec<u8>> {
    if !elements.len().is_multiple_of(width) {
        return Err(Error::malformed(
            Rule::ZTensorLength,
            format!(
                "{} bytes are not a whole number of elements",
                elements.len()
            ),
        ));
    }
    byte_order::swapped(elements, width)
}

const SKIPPABLE: u32 = 0x184D_2A5E;
const SEEKABLE: u32 = 0x8F92_EAB1;
/// The length of the frame count, the descriptor and the magic at the end of
/// the table.
const END_BYTES: u64 = 9;
/// The largest number of bytes that one frame may decode to.
const FRAME_BYTES: u64 = 16 << 20;

/// Decodes `stored` to exactly `len_bytes`. All frames are checked before
/// memory is allocated.
pub fn decode<E: Engine>(engine: &E, stored: &[u8], len_bytes: u64) -> Result<Vec<u8>> {
    let frames = frames(stored, len_bytes)?;
    let mut out = bytes::buffer(len_bytes)?;
    let mut rest = &mut out[..];
    let mut work = Vec::with_capacity(frames.len());
    for (frame, decoded_len) in frames {
        let (dest, after) = rest.split_at_mut(index(decoded_len));
        rest = after;
        work.push((frame, dest));
    }
    engine
        .map(work, |(frame, dest)| zstd::decode(engine, frame, dest))
        .into_iter()
        .collect::<Result<()>>()?;
    Ok(out)
}

/// Returns the frames with their decoded lengths, which add up to `len_bytes`.
fn frames(stored: &[u8], len_bytes: u64) -> Result<Vec<(&[u8], u64)>> {
    let table_start = table_start(stored)?;
    let (mut data, table) = stored.split_at(index(table_start));
    let mut entries = Cursor::new(&table[8..]);
    let mut frames = Vec::new();
    let (mut sum, mut first) = (0u64, None);
    while entries.remaining() as u64 > END_BYTES {
        let frame_len = entries.u32("compressed length")? as usize;
        let decoded_len = u64::from(entries.u32("decoded length")?);
        let Some((frame, after)) = data.split_at_checked(frame_len) else {
            return Err(bad(
                "the table lists more bytes than there are",
                table_start,
            ));
        };
        let is_last = entries.remaining() as u64 == END_BYTES;
        let is_even = is_last || decoded_len == *first.get_or_insert(decoded_len);
        if decoded_len > FRAME_BYTES || !is_even {
            return Err(bad("the frames are not cut evenly", table_start));
        }
        let start = table_start - data.len() as u64;
        zstd::check(frame, decoded_len).map_err(|error| error.within(start))?;
        frames.push((frame, decoded_len));
        sum += decoded_len;
        data = after;
    }
    if !data.is_empty() {
        return Err(bad(
            "the table lists fewer bytes than there are",
            table_start,
        ));
    }
    if sum != len_bytes {
        return Err(Error::malformed(
            Rule::ZTensorLength,
            format!("{sum} bytes are stored where shape and dtype require {len_bytes}"),
        ));
    }
    Ok(frames)
}

/// Returns the offset of the table, which is at the end of the stream.
fn table_start(stored: &[u8]) -> Result<u64> {
    let end = stored.len() as u64;
    let Some(tail_start) = end.checked_sub(END_BYTES) else {
        return Err(bad("the stream is too short for a table of frames", 0));
    };
    let mut tail = Cursor::new(bytes::part(stored, tail_start..end));
    let count = u64::from(tail.u32("number of frames")?);
    let descriptor = tail.u8("descriptor of the table")?;
    if tail.u32("magic of the table")? != SEEKABLE {
        return Err(bad("the stream does not end with its magic", tail_start));
    }
    if descriptor != 0 {
        return Err(bad("the type of the table is unknown", tail_start));
    }
    let after_head = count * 8 + END_BYTES;
    let start = end.checked_sub(after_head + 8);
    let Some(start) = start else {
        return Err(bad("the table is longer than the stream", tail_start));
    };
    let mut head = Cursor::new(bytes::part(stored, start..end));
    let is_head = head.u32("head of the table")? == SKIPPABLE
        && u64::from(head.u32("length of the table")?) == after_head;
    if is_head {
        Ok(start)
    } else {
        Err(bad("the table of frames has no head", start))
    }
}

fn bad(why: &'static str, offset: u64) -> Error {
    Error::malformed(Rule::ZTensorSeekTable, why).at(offset)
}
