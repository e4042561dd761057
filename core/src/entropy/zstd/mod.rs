//! zstd payloads: the rules that apply regardless of the engine that decodes
//! them (docs/formats/z4ai-frames.md 1 and 4.2), and zstd codecs in pure Rust.
//!
//! [`check()`] must precede any decoding. [`encode_literals`] writes the frames
//! that every engine writes identically, and [`decode_fast`] reads those of them
//! that it decodes faster than C zstd; [`decode_frame`] reads any frame.

use alloc::format;

use crate::bytes::Cursor;
use crate::engine::Engine;
use crate::limits::{ZSTD_BLOCK_BYTES, ZSTD_WINDOW_BYTES};
use crate::{Error, Result, Rule};

#[cfg(target_arch = "x86_64")]
mod avx2;
pub mod cost;
mod decode;
mod encode;
mod fse;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod simd128;

#[cfg(feature = "plan")]
pub(crate) use decode::{Fault, outline};
pub use decode::{decode_fast, decode_frame};
pub(crate) use encode::MIN_GAIN_DIVISOR;
pub use encode::encode_literals;
#[cfg(feature = "pure-encoder")]
pub(crate) use encode::{write_blocks, write_header};

/// Decodes a payload that [`check()`] has accepted for `out.len()` bytes.
pub fn decode<E: Engine>(engine: &E, payload: &[u8], out: &mut [u8]) -> Result<()> {
    engine
        .zstd_decode(payload, out)
        .map_err(|why| damaged(&why))
}

#[cfg(feature = "plan")]
impl Fault {
    /// Converts to the error that [`decode`] returns for the same fault.
    pub(crate) fn into_error(self) -> Error {
        damaged(self.0)
    }
}

/// Returns the error for a frame that does not decode. `why` states the reason.
fn damaged(why: &str) -> Error {
    Error::malformed(
        Rule::ZstdData,
        format!("zstd data do not decode ({why}): the file is damaged"),
    )
}

const MAGIC: u32 = 0xFD2F_B528;

/// The fields of a frame header that affect decoding.
struct FrameHeader {
    /// The decoded length of the frame in bytes, if declared.
    pub content_bytes: Option<u64>,
    /// The maximum decoded length of a block in bytes.
    pub block_cap_bytes: u64,
    /// True if a checksum follows the last block.
    pub has_checksum: bool,
}

/// Reads a frame header and checks that every engine can decode the frame: it
/// must not use a dictionary, and its window must be at most 2^27 bytes.
fn read_header(cursor: &mut Cursor) -> Result<FrameHeader> {
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
    Ok(FrameHeader {
        content_bytes,
        block_cap_bytes: window.min(ZSTD_BLOCK_BYTES),
        has_checksum: descriptor & 0x04 != 0,
    })
}

/// One block of a frame (RFC 8878, 3.1.1.2).
#[derive(Debug, Clone, Copy)]
struct ZstdBlock<'a> {
    /// True if this is the last block of the frame.
    pub is_last: bool,
    pub content: BlockContent<'a>,
}

/// The content of a block, by its type (RFC 8878, 3.1.1.2.2).
#[derive(Debug, Clone, Copy)]
enum BlockContent<'a> {
    /// Uncompressed bytes.
    Raw(&'a [u8]),
    /// One byte and the number of its repetitions.
    Run(u8, u64),
    /// Literals and sequences.
    Compressed(&'a [u8]),
}

impl<'a> ZstdBlock<'a> {
    fn read(cursor: &mut Cursor<'a>, cap_bytes: u64) -> Result<Self> {
        let at = cursor.position() as u64;
        let header = cursor.u24("zstd block header")?;
        let size = u64::from(header >> 3);
        if size > cap_bytes {
            return Err(Error::malformed(
                Rule::ZstdFrame,
                format!("a zstd block of {size} bytes is over the cap of {cap_bytes}"),
            )
            .at(at));
        }
        let content = match header >> 1 & 3 {
            0 => BlockContent::Raw(cursor.take(size, "zstd block")?),
            1 => BlockContent::Run(cursor.u8("zstd block")?, size),
            2 => BlockContent::Compressed(cursor.take(size, "zstd block")?),
            _ => {
                return Err(Error::malformed(
                    Rule::ZstdFrame,
                    "a zstd block is of the reserved type",
                )
                .at(at));
            }
        };
        Ok(Self {
            is_last: header & 1 != 0,
            content,
        })
    }
}

/// Reads the blocks of a frame and the checksum after them, for engines that
/// decode blocks themselves.
#[derive(Debug, Clone)]
struct ZstdBlocks<'a> {
    cursor: Cursor<'a>,
    has_checksum: bool,
    /// The maximum decoded length of a block, in bytes.
    pub cap_bytes: u64,
    /// The content size that the frame declares, in bytes.
    pub content_bytes: Option<u64>,
}

impl<'a> ZstdBlocks<'a> {
    /// Parses the header of `frame`.
    pub fn of(frame: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(frame);
        let header = read_header(&mut cursor)?;
        Ok(Self {
            cursor,
            has_checksum: header.has_checksum,
            cap_bytes: header.block_cap_bytes,
            content_bytes: header.content_bytes,
        })
    }

    /// Returns the next block. The caller must stop after the last one.
    pub fn read(&mut self) -> Result<ZstdBlock<'a>> {
        ZstdBlock::read(&mut self.cursor, self.cap_bytes)
    }

    /// Returns the checksum after the last block, if there is one.
    pub fn checksum(&mut self) -> Result<Option<u32>> {
        let read = self.has_checksum;
        read.then(|| self.cursor.u32("zstd checksum")).transpose()
    }

    /// Returns whether all bytes of the frame have been read.
    #[must_use]
    pub(crate) fn is_at_end(&self) -> bool {
        self.cursor.remaining() == 0
    }
}

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
pub(crate) fn sized_prefix(bytes: &[u8], len_bytes: u64) -> Result<&[u8]> {
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
pub(crate) fn content_bytes(payload: &[u8]) -> Result<Option<u64>> {
    Ok(read_header(&mut Cursor::new(payload))?.content_bytes)
}

/// Visits all blocks up to the last one, and returns the maximum length in
/// bytes that they can decode to together.
fn walk_blocks(cursor: &mut Cursor, cap_bytes: u64) -> Result<u64> {
    let mut capacity = 0u64;
    loop {
        let block = ZstdBlock::read(cursor, cap_bytes)?;
        // This cannot overflow, because each block takes at least three bytes
        // of input.
        capacity += match block.content {
            BlockContent::Raw(bytes) => bytes.len() as u64,
            BlockContent::Run(_, len_bytes) => len_bytes,
            BlockContent::Compressed(_) => cap_bytes,
        };
        if block.is_last {
            return Ok(capacity);
        }
    }
}
