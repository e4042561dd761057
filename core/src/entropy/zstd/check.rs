//! The checks that precede decoding. They visit the block headers, which takes
//! a few instructions per 128 KiB, and determine before any allocation whether
//! the payload is exactly one frame and whether it can hold the declared number
//! of bytes.

use alloc::format;

use super::block::{Block, Content};
use super::header::read_header;
use crate::bytes::Cursor;
use crate::{Error, Result, Rule};

/// Checks that `payload` is exactly one frame that may decode to `len_bytes`
/// bytes. Offsets in errors count from the start of the payload.
pub fn check(payload: &[u8], len_bytes: u64) -> Result<()> {
    let (frame, _) = walk(payload, len_bytes)?;
    whole(payload, frame)
}

/// Checks like [`check`], and requires that the frame declares its content
/// size. z4ai reads bitmaps, codebooks and indices only if it does.
pub fn check_sized(payload: &[u8], len_bytes: u64) -> Result<()> {
    whole(payload, sized_prefix(payload, len_bytes)?)
}

/// Returns the frame at the start of `bytes`. It must declare a content size of
/// `len_bytes` bytes and may decode to that length. Other data may follow it.
pub fn sized_prefix(bytes: &[u8], len_bytes: u64) -> Result<&[u8]> {
    match walk(bytes, len_bytes)? {
        (frame, true) => Ok(frame),
        _ => Err(Error::malformed(
            Rule::ZstdSized,
            "a zstd frame does not declare its content size",
        )
        .at(0)),
    }
}

fn whole(payload: &[u8], frame: &[u8]) -> Result<()> {
    if frame.len() == payload.len() {
        return Ok(());
    }
    let rest = payload.len() - frame.len();
    Err(Error::malformed(
        Rule::ZstdTrailing,
        format!("{rest} bytes follow the zstd frame"),
    )
    .at(frame.len() as u64))
}

/// Returns the frame at the start of `bytes`, after checking that it may decode
/// to `len_bytes` bytes, and whether it declares its content size.
fn walk(bytes: &[u8], len_bytes: u64) -> Result<(&[u8], bool)> {
    let mut cursor = Cursor::new(bytes);
    let header = read_header(&mut cursor)?;
    if let Some(content) = header.content_bytes
        && content != len_bytes
    {
        return Err(Error::malformed(
            Rule::ZstdContentSize,
            format!("a zstd frame declares {content} bytes where {len_bytes} are expected"),
        ));
    }
    let capacity = walk_blocks(&mut cursor, header.block_cap_bytes)?;
    if header.has_checksum {
        cursor.u32("zstd checksum")?;
    }
    if capacity < len_bytes {
        return Err(Error::malformed(
            Rule::ZstdCapacity,
            format!("a zstd frame of at most {capacity} bytes declares {len_bytes}"),
        ));
    }
    Ok((&bytes[..cursor.position()], header.content_bytes.is_some()))
}

/// Returns the content size that a frame declares, if it does. It must not be
/// trusted before [`check`] has succeeded.
pub fn content_bytes(payload: &[u8]) -> Result<Option<u64>> {
    Ok(read_header(&mut Cursor::new(payload))?.content_bytes)
}

/// Visits all blocks up to the last one, and returns the maximum length in
/// bytes that they can decode to together.
fn walk_blocks(cursor: &mut Cursor, cap_bytes: u64) -> Result<u64> {
    let mut capacity = 0u64;
    loop {
        let block = Block::read(cursor, cap_bytes)?;
        // This cannot overflow, because each block takes at least three bytes
        // of input.
        capacity += match block.content {
            Content::Raw(bytes) => bytes.len() as u64,
            Content::Run(_, len_bytes) => len_bytes,
            Content::Compressed(_) => cap_bytes,
        };
        if block.is_last {
            return Ok(capacity);
        }
    }
}
