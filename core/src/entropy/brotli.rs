//! Brotli streams, which only `ZARA` frames hold
//! (docs/formats/z4ai-frames.md 11.3).
//!
//! A stream says nowhere what it decodes to, and a few bytes may decode to
//! any number: output grows with what has really been produced.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use brotli_decompressor::{
    Allocator, BrotliDecompressStream, BrotliResult, BrotliState, SliceWrapper, SliceWrapperMut,
};

use super::blocks::{self, Piece};
use crate::bytes;
use crate::engine::Engine;
use crate::{Error, Result, Rule};

/// Output is made in pieces that grow from this to [`MOST_PIECE_BYTES`].
const LEAST_PIECE_BYTES: u64 = 16 << 10;
const MOST_PIECE_BYTES: u64 = 16 << 20;
/// The decoder counts its input in 32 bits.
const INPUT_PIECE_BYTES: usize = 1 << 30;

/// Decodes the one stream that fills `payload` to exactly `len_bytes` bytes.
pub fn decode(payload: &[u8], len_bytes: u64) -> Result<Vec<u8>> {
    // "Strict": the window is at most 16 MiB.
    let mut state = BrotliState::new_strict(Heap, Heap, Heap);
    let mut out: Vec<u8> = Vec::new();
    let (mut read, mut written) = (0, 0);
    let mut total = 0;
    loop {
        let input = &payload[read..payload.len().min(read + INPUT_PIECE_BYTES)];
        let (mut input_left, mut input_at) = (input.len(), 0);
        let mut room = out.len() - written;
        let result = BrotliDecompressStream(
            &mut input_left,
            &mut input_at,
            input,
            &mut room,
            &mut written,
            &mut out,
            &mut total,
            &mut state,
        );
        read += input_at;
        match result {
            BrotliResult::ResultSuccess => break,
            BrotliResult::NeedsMoreOutput if out.len() as u64 == len_bytes => {
                return Err(Error::malformed(
                    Rule::BrotliLength,
                    format!("a brotli stream decodes to more than {len_bytes} bytes"),
                ));
            }
            BrotliResult::NeedsMoreOutput => grow(&mut out, len_bytes)?,
            BrotliResult::NeedsMoreInput if read < payload.len() && input_at > 0 => {}
            BrotliResult::NeedsMoreInput => return Err(damaged("ends early")),
            BrotliResult::ResultFailure => return Err(damaged("does not decode")),
        }
    }
    if read != payload.len() {
        return Err(Error::malformed(
            Rule::BrotliData,
            format!("{} bytes follow the brotli stream", payload.len() - read),
        )
        .at(read as u64));
    }
    if written as u64 != len_bytes {
        return Err(Error::malformed(
            Rule::BrotliLength,
            format!("a brotli stream decodes to {written} bytes where {len_bytes} are expected"),
        ));
    }
    Ok(out)
}

fn damaged(what: &str) -> Error {
    Error::malformed(
        Rule::BrotliData,
        format!("a brotli stream {what}: the file is damaged"),
    )
}

/// Makes room for as much again as has been produced, within reason.
fn grow(out: &mut Vec<u8>, len_bytes: u64) -> Result<()> {
    let produced = out.len() as u64;
    let piece = produced.clamp(LEAST_PIECE_BYTES, MOST_PIECE_BYTES);
    let target = usize::try_from(len_bytes.min(produced + piece))
        .ok()
        .filter(|&target| out.try_reserve(target - out.len()).is_ok())
        .ok_or_else(|| Error::limit(format!("{len_bytes} bytes do not fit in memory")))?;
    out.resize(target, 0);
    Ok(())
}

/// Independent brotli blocks, stream method 4.
#[derive(Debug, Clone)]
pub struct Blocks<'a>(Vec<Piece<'a>>);

impl<'a> Blocks<'a> {
    /// Reads the table.
    pub fn parse(payload: &'a [u8], len_bytes: u64) -> Result<Self> {
        Ok(Self(blocks::cut(payload, len_bytes)?.1))
    }

    /// Decodes all blocks.
    pub fn decode<E: Engine>(&self, engine: &E) -> Result<Vec<u8>> {
        let decoded = engine.map(self.0.clone(), |piece| {
            decode(piece.coded, piece.len_bytes).map_err(|e| e.within(piece.at))
        });
        let decoded = decoded.into_iter().collect::<Result<Vec<_>>>()?;
        let mut out = bytes::buffer(self.0.iter().map(|piece| piece.len_bytes).sum())?;
        let mut rest = &mut out[..];
        for block in decoded {
            let (now, later) = rest.split_at_mut(block.len());
            now.copy_from_slice(&block);
            rest = later;
        }
        Ok(out)
    }
}

/// Memory for the decoder, from the allocator of the program.
struct Heap;

impl<T: Clone + Default> Allocator<T> for Heap {
    type AllocatedMemory = Memory<T>;

    fn alloc_cell(&mut self, len: usize) -> Memory<T> {
        Memory(vec![T::default(); len].into_boxed_slice())
    }

    fn free_cell(&mut self, _: Memory<T>) {}
}

struct Memory<T>(Box<[T]>);

impl<T> Default for Memory<T> {
    fn default() -> Self {
        Self(Box::new([]))
    }
}

impl<T> SliceWrapper<T> for Memory<T> {
    fn slice(&self) -> &[T] {
        &self.0
    }
}

impl<T> SliceWrapperMut<T> for Memory<T> {
    fn slice_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

/// One stream of `input` at `quality`, 0 to 11: generic mode, a window of at
/// most 4 MiB, as z4ai writes them.
#[cfg(feature = "brotli-encoder")]
#[must_use]
pub fn encode(input: &[u8], quality: u8) -> Vec<u8> {
    let params = brotli::enc::BrotliEncoderParams {
        quality: quality.into(),
        lgwin: 22,
        size_hint: input.len(),
        ..Default::default()
    };
    let mut out = Vec::new();
    brotli::BrotliCompress(&mut &input[..], &mut out, &params)
        .expect("writing to memory does not fail");
    out
}

/// The payload of stream method 4 with blocks of `block_bytes` bytes.
#[cfg(feature = "brotli-encoder")]
#[must_use]
pub fn encode_blocks<E: Engine>(
    engine: &E,
    input: &[u8],
    quality: u8,
    block_bytes: u32,
) -> Vec<u8> {
    let size = usize::try_from(block_bytes).unwrap_or(usize::MAX).max(1);
    let coded = engine.map(input.chunks(size).collect(), |block| encode(block, quality));
    let lens: Vec<u32> = coded
        .iter()
        .map(|block| u32::try_from(block.len()).expect("a block grows by a few bytes at most"))
        .collect();
    let mut out = blocks::table(block_bytes.max(1), &lens);
    for block in coded {
        out.extend_from_slice(&block);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    // An empty stream, and one that holds three bytes uncompressed.
    const EMPTY: &[u8] = &[0x06];

    #[test]
    fn lengths_and_ends() {
        assert!(decode(EMPTY, 0).unwrap().is_empty());
        let rule = |payload: &[u8], len| decode(payload, len).unwrap_err().rule();
        assert_eq!(rule(EMPTY, 1), Some(Rule::BrotliLength));
        assert_eq!(rule(&[0x06, 0], 0), Some(Rule::BrotliData));
        assert_eq!(rule(&[], 0), Some(Rule::BrotliData));
        assert_eq!(rule(&[0x06, 0], u64::MAX), Some(Rule::BrotliData));
    }
}
