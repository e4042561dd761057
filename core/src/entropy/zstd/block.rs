//! The blocks of a zstd frame (RFC 8878, 3.1.1), as delimited by their headers.

use alloc::format;

use super::header::read_header;
use crate::bytes::Cursor;
use crate::{Error, Result, Rule};

/// One block of a frame (RFC 8878, 3.1.1.2).
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    /// True if this is the last block of the frame.
    pub is_last: bool,
    /// The content of the block.
    pub content: Content<'a>,
}

/// The content of a block.
#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    /// Uncompressed bytes.
    Raw(&'a [u8]),
    /// One byte and the number of its repetitions.
    Run(u8, u64),
    /// Literals and sequences.
    Compressed(&'a [u8]),
}

impl<'a> Block<'a> {
    pub(super) fn read(cursor: &mut Cursor<'a>, cap_bytes: u64) -> Result<Self> {
        let at = cursor.position() as u64;
        let header = cursor.u24("zstd block header")?;
        let size = u64::from(header >> 3);
        if size > cap_bytes {
            return Err(Error::malformed(
                Rule::ZstdFrame,
                format!("a zstd block of {size} bytes is over {cap_bytes}"),
            )
            .at(at));
        }
        let content = match header >> 1 & 3 {
            0 => Content::Raw(cursor.take(size, "zstd block")?),
            1 => Content::Run(cursor.u8("zstd block")?, size),
            2 => Content::Compressed(cursor.take(size, "zstd block")?),
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
pub struct Blocks<'a> {
    cursor: Cursor<'a>,
    has_checksum: bool,
    /// The maximum decoded length of a block, in bytes.
    pub cap_bytes: u64,
    /// The content size that the frame declares, in bytes.
    pub content_bytes: Option<u64>,
}

impl<'a> Blocks<'a> {
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
    pub fn read(&mut self) -> Result<Block<'a>> {
        Block::read(&mut self.cursor, self.cap_bytes)
    }

    /// Returns the checksum after the last block, if there is one.
    pub fn checksum(&mut self) -> Result<Option<u32>> {
        let read = self.has_checksum;
        read.then(|| self.cursor.u32("zstd checksum")).transpose()
    }

    /// Returns whether all bytes of the frame have been read.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.cursor.remaining() == 0
    }
}
