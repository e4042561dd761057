//! The encoding `zt.zstd-seekable/1`: zstd frames without gaps between them,
//! followed by a table of their lengths (docs/formats/ztensor.md 8.3).

use alloc::format;
use alloc::vec::Vec;

use crate::bytes::{self, Cursor, index};
use crate::engine::Engine;
use crate::entropy::zstd;
use crate::{Error, Result, Rule};

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
