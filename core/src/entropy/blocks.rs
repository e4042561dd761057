//! Independent blocks: zstd blocks in plane method 2
//! (docs/formats/z4ai-frames.md 4.3), and brotli blocks in `ZARA` frames
//! (11.3). They decode in parallel, and a reader of some rows of a tensor
//! fetches only the blocks that contain them.

use alloc::format;
use alloc::vec::Vec;

use super::zstd;
use crate::bytes::Cursor;
use crate::engine::Engine;
use crate::{Error, Result, Rule};

/// One block of a payload, located by the table of blocks.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// Offset of the block in the payload.
    pub at: u64,
    /// The coded bytes.
    pub coded: &'a [u8],
    /// The decoded length in bytes.
    pub len_bytes: u64,
}

/// Divides a payload into blocks following its table. Returns the decoded
/// length of every block except the last, and the blocks, which decode to
/// `len_bytes` bytes in total.
pub fn cut(payload: &[u8], len_bytes: u64) -> Result<(u64, Vec<Piece<'_>>)> {
    let bad = |detail| Error::malformed(Rule::BlocksTable, detail);
    let mut cursor = Cursor::new(payload);
    let block_bytes = u64::from(cursor.u32("block size")?);
    let count = u64::from(cursor.u32("block count")?);
    let mut lengths = Cursor::new(cursor.take(count * 4, "block lengths")?);
    let fits = if len_bytes == 0 {
        count == 0
    } else {
        // Count and size are below 2^32, so the products do not overflow.
        count >= 1
            && block_bytes >= 1
            && (count - 1) * block_bytes < len_bytes
            && len_bytes <= count * block_bytes
    };
    if !fits {
        return Err(bad(format!(
            "{count} blocks of {block_bytes} bytes cannot make a plane of {len_bytes} bytes"
        )));
    }
    let mut pieces = Vec::new();
    let mut left = len_bytes;
    while left > 0 {
        let stored = lengths.u32("block length")?;
        let piece = Piece {
            at: cursor.position() as u64,
            coded: cursor.take(stored.into(), "block of a plane")?,
            len_bytes: left.min(block_bytes),
        };
        left -= piece.len_bytes;
        pieces.push(piece);
    }
    if cursor.remaining() != 0 {
        return Err(bad(format!(
            "{} bytes follow the last block",
            cursor.remaining()
        )));
    }
    Ok((block_bytes, pieces))
}

/// A parsed payload of plane method 2.
#[derive(Debug, Clone)]
pub struct Blocks<'a> {
    block_bytes: u64,
    frames: Vec<&'a [u8]>,
}

impl<'a> Blocks<'a> {
    /// Parses the table and checks every block against the plane's decoded
    /// length. The allocated memory is proportional to the actual length of the
    /// payload.
    pub fn parse(payload: &'a [u8], len_bytes: u64) -> Result<Self> {
        let (block_bytes, pieces) = cut(payload, len_bytes)?;
        let frames = pieces.into_iter().map(|piece| {
            zstd::check(piece.coded, piece.len_bytes).map_err(|e| e.within(piece.at))?;
            Ok(piece.coded)
        });
        Ok(Self {
            block_bytes,
            frames: frames.collect::<Result<_>>()?,
        })
    }

    /// Returns the decoded length of every block except the last, in bytes.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Returns the coded blocks. Each block is one zstd frame.
    #[must_use]
    pub fn frames(&self) -> &[&'a [u8]] {
        &self.frames
    }

    /// Decodes all blocks into `out`, which must be as long as the plane.
    pub fn decode<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<()> {
        self.decode_from(engine, 0, out)
    }

    /// Decodes whole blocks into `out`, starting with block `first`.
    pub(crate) fn decode_from<E: Engine>(
        &self,
        engine: &E,
        first: usize,
        out: &mut [u8],
    ) -> Result<()> {
        let Some(size) = usize::try_from(self.block_bytes).ok().filter(|&s| s > 0) else {
            return Ok(());
        };
        let jobs: Vec<_> = self.frames[first..]
            .iter()
            .zip(out.chunks_mut(size))
            .collect();
        engine
            .map(jobs, |(frame, part)| zstd::decode(engine, frame, part))
            .into_iter()
            .collect()
    }
}

/// Returns the length in bytes of the table of `count` blocks.
#[must_use]
pub fn table_len_bytes(count: usize) -> usize {
    8 + 4 * count
}

/// Returns the table of blocks with these stored lengths. Every block except
/// the last decodes to `block_bytes` bytes.
#[must_use]
pub fn table(block_bytes: u32, stored_lens: &[u32]) -> Vec<u8> {
    let count = u32::try_from(stored_lens.len()).unwrap_or(u32::MAX);
    let mut out = Vec::with_capacity(table_len_bytes(stored_lens.len()));
    out.extend_from_slice(&block_bytes.to_le_bytes());
    out.extend_from_slice(&count.to_le_bytes());
    for len in stored_lens {
        out.extend_from_slice(&len.to_le_bytes());
    }
    out
}

/// Returns the table of `blocks`, which are coded. Every block except the last
/// decodes to `block_bytes` bytes.
pub(crate) fn table_of(block_bytes: u32, blocks: &[Vec<u8>]) -> Vec<u8> {
    let len = |block: &Vec<u8>| u32::try_from(block.len()).expect("a block is a few MiB");
    table(block_bytes, &blocks.iter().map(len).collect::<Vec<_>>())
}
