//! The header of a zstd frame (RFC 8878, 3.1.1.1).

use alloc::format;

use crate::bytes::Cursor;
use crate::limits::{ZSTD_BLOCK_BYTES, ZSTD_WINDOW_BYTES};
use crate::{Error, Result, Rule};

const MAGIC: u32 = 0xFD2F_B528;

/// The fields of a frame header that affect decoding.
pub struct Header {
    /// The decoded length of the frame in bytes, if declared.
    pub content_bytes: Option<u64>,
    /// The maximum decoded length of a block in bytes.
    pub block_cap_bytes: u64,
    /// True if a checksum follows the last block.
    pub has_checksum: bool,
}

/// Reads a frame header and checks that every engine can decode the frame: it
/// must not use a dictionary, and its window must be at most 2^27 bytes.
pub fn read_header(cursor: &mut Cursor) -> Result<Header> {
    let bad = |detail: &'static str| Error::malformed(Rule::ZstdFrame, detail);
    if cursor.u32("zstd magic")? != MAGIC {
        return Err(bad("a zstd frame is expected here, but its magic is missing").at(0));
    }
    let descriptor = cursor.u8("zstd frame descriptor")?;
    if descriptor & 0x08 != 0 {
        return Err(bad("the reserved bit of a zstd frame is set"));
    }
    let single_segment = descriptor & 0x20 != 0;
    let window_bytes = if single_segment {
        None
    } else {
        let byte = cursor.u8("zstd window")?;
        let base = 1u64 << (10 + (byte >> 3));
        Some(base + (base >> 3) * u64::from(byte & 7))
    };
    let dictionary = match descriptor & 3 {
        0 => 0,
        1 => cursor.u8("zstd dictionary id")?.into(),
        2 => cursor.u16("zstd dictionary id")?.into(),
        _ => cursor.u32("zstd dictionary id")?,
    };
    if dictionary != 0 {
        return Err(bad("a zstd frame needs a dictionary"));
    }
    let content_bytes = match descriptor >> 6 {
        0 if !single_segment => None,
        0 => Some(cursor.u8("zstd content size")?.into()),
        1 => Some(u64::from(cursor.u16("zstd content size")?) + 256),
        2 => Some(cursor.u32("zstd content size")?.into()),
        _ => Some(cursor.u64("zstd content size")?),
    };
    if let Some(window) = window_bytes
        && window > ZSTD_WINDOW_BYTES
    {
        return Err(Error::malformed(
            Rule::ZstdWindow,
            format!("a zstd frame declares a window of {window} bytes, over {ZSTD_WINDOW_BYTES}"),
        ));
    }
    let window = window_bytes.or(content_bytes).unwrap_or(0);
    Ok(Header {
        content_bytes,
        block_cap_bytes: window.min(ZSTD_BLOCK_BYTES),
        has_checksum: descriptor & 0x04 != 0,
    })
}
