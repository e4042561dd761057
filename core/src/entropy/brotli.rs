//! Brotli streams, which only `ZARA` frames contain
//! (docs/formats/z4ai-frames.md 11.3).
//!
//! A stream does not state its decoded length, and a few bytes can decode to
//! any number. The output buffer therefore grows only as data is actually
//! produced.
//!
//! The decoder includes a dictionary of 120 kB and more code than all other
//! decoders together, so it is only built with the feature `brotli`.

#[cfg(feature = "brotli")]
use alloc::boxed::Box;
use alloc::vec::Vec;
#[cfg(feature = "brotli")]
use alloc::{format, vec};

#[cfg(feature = "brotli")]
use brotli_decompressor::{
    Allocator, BrotliDecompressStream, BrotliResult, BrotliState, SliceWrapper, SliceWrapperMut,
};

use super::blocks::{self, Piece};
use crate::engine::Engine;
#[cfg(feature = "brotli")]
use crate::{Error, Rule};
use crate::{Result, bytes};

/// Returns an error, because this build has no brotli decoder.
#[cfg(not(feature = "brotli"))]
pub fn decode(_: &[u8], _: u64) -> Result<Vec<u8>> {
    Err(crate::Error::unsupported(
        "the frame contains brotli streams, which this build cannot decode (feature `brotli`)",
    ))
}

/// Independent brotli blocks (stream method 4).
#[derive(Debug, Clone)]
pub struct Blocks<'a>(Vec<Piece<'a>>);

impl<'a> Blocks<'a> {
    /// Parses the table of blocks.
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

/// Encodes `input` as one stream with `quality` from 0 to 11, in generic mode
/// and with a window of at most 4 MiB, like z4ai.
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

/// Encodes `input` as a payload of stream method 4 with blocks of `block_bytes`
/// bytes.
#[cfg(feature = "brotli-encoder")]
#[must_use]
pub(crate) fn encode_blocks<E: Engine>(
    engine: &E,
    input: &[u8],
    quality: u8,
    block_bytes: u32,
) -> Vec<u8> {
    let size = usize::try_from(block_bytes).unwrap_or(usize::MAX).max(1);
    let coded = engine.map(input.chunks(size).collect(), |block| encode(block, quality));
    let mut out = blocks::table_of(block_bytes.max(1), &coded);
    for block in coded {
        out.extend_from_slice(&block);
    }
    out
}

#[cfg(all(test, not(feature = "brotli")))]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn without_the_decoder_a_stream_is_unsupported() {
        let error = decode(&[0x06], 0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("brotli"));
    }
}

/// The output buffer doubles whenever it is full, but grows by at least this
/// many bytes and by at most [`MAX_PIECE_BYTES`].
#[cfg(feature = "brotli")]
const MIN_PIECE_BYTES: u64 = 16 << 10;
#[cfg(feature = "brotli")]
const MAX_PIECE_BYTES: u64 = 16 << 20;
/// The maximum number of input bytes in one call of the decoder, which counts
/// them with 32 bits.
#[cfg(feature = "brotli")]
const INPUT_PIECE_BYTES: usize = 1 << 30;

/// Decodes `payload`, which must be exactly one stream, to exactly `len_bytes`
/// bytes.
#[cfg(feature = "brotli")]
pub fn decode(payload: &[u8], len_bytes: u64) -> Result<Vec<u8>> {
    // In strict mode, the window is at most 16 MiB.
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

#[cfg(feature = "brotli")]
fn damaged(what: &str) -> Error {
    Error::malformed(
        Rule::BrotliData,
        format!("a brotli stream {what}: the file is damaged"),
    )
}

/// Doubles the output buffer, within the limits above.
#[cfg(feature = "brotli")]
fn grow(out: &mut Vec<u8>, len_bytes: u64) -> Result<()> {
    let produced = out.len() as u64;
    let piece = produced.clamp(MIN_PIECE_BYTES, MAX_PIECE_BYTES);
    let target = usize::try_from(len_bytes.min(produced + piece))
        .ok()
        .filter(|&target| out.try_reserve(target - out.len()).is_ok())
        .ok_or_else(|| Error::limit(format!("{len_bytes} bytes do not fit in memory")))?;
    out.resize(target, 0);
    Ok(())
}

/// Memory for the decoder, from the global allocator.
#[cfg(feature = "brotli")]
struct Heap;

#[cfg(feature = "brotli")]
impl<T: Clone + Default> Allocator<T> for Heap {
    type AllocatedMemory = Memory<T>;

    fn alloc_cell(&mut self, len: usize) -> Memory<T> {
        Memory(vec![T::default(); len].into_boxed_slice())
    }

    fn free_cell(&mut self, _: Memory<T>) {}
}

#[cfg(feature = "brotli")]
struct Memory<T>(Box<[T]>);

#[cfg(feature = "brotli")]
impl<T> Default for Memory<T> {
    fn default() -> Self {
        Self(Box::new([]))
    }
}

#[cfg(feature = "brotli")]
impl<T> SliceWrapper<T> for Memory<T> {
    fn slice(&self) -> &[T] {
        &self.0
    }
}

#[cfg(feature = "brotli")]
impl<T> SliceWrapperMut<T> for Memory<T> {
    fn slice_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

#[cfg(all(test, feature = "brotli"))]
mod tests {
    use super::*;

    // An empty stream.
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
