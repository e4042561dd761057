//! Brotli streams, which only `ZARA` frames contain
//! (docs/formats/z4ai-frames.md 11.3).
//!
//! A stream does not state its decoded length, and a few bytes can decode to
//! any number. The output buffer therefore grows only as data is actually
//! produced.
//!
//! The decoder includes a dictionary of 120 kB and more code than all other
//! decoders together, so it is only built with the feature `brotli`.

use alloc::vec::Vec;

use super::blocks::{self, Piece};
use crate::Result;
use crate::bytes;
use crate::engine::Engine;

#[cfg(feature = "brotli")]
mod stream;
#[cfg(feature = "brotli")]
pub use stream::decode;

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
