//! An engine without C code and without threads.

use alloc::string::String;
use alloc::vec::Vec;

#[cfg(feature = "pure-encoder")]
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::engine::Engine;
#[cfg(feature = "pure-encoder")]
use crate::engine::{PackEngine, ZstdCoding};
use crate::entropy::zstd;
#[cfg(feature = "pure-encoder")]
use crate::entropy::zstd::{write_blocks, write_header};

/// An engine that decodes zstd in pure Rust and runs jobs sequentially. With
/// the feature `pure-encoder`, it also encodes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pure;

impl Engine for Pure {
    fn zstd_decode(&self, frame: &[u8], out: &mut [u8]) -> Result<(), String> {
        zstd::decode_frame(frame, out)
    }

    fn map<T, R, F>(&self, items: Vec<T>, job: F) -> Vec<R>
    where
        T: Send,
        R: Send,
        F: Fn(T) -> R + Sync + Send,
    {
        items.into_iter().map(job).collect()
    }
}

#[cfg(feature = "pure-encoder")]
impl PackEngine for Pure {
    fn zstd_encode(&self, input: &[u8], coding: ZstdCoding, out: &mut Vec<u8>) {
        write_header(input.len(), out);
        let blocks_start = out.len();
        write_blocks(input, out);
        if coding == ZstdCoding::Huffman {
            return;
        }
        // `ruzstd` offers only one level, and often codes literals worse than
        // the Huffman encoder of this crate.
        let searched = compress_to_vec(input, CompressionLevel::Fastest);
        if let Some(blocks) = blocks_of(&searched)
            && blocks.len() < out.len() - blocks_start
        {
            out.truncate(blocks_start);
            out.extend_from_slice(blocks);
        }
    }
}

/// Returns the blocks of a frame written by `ruzstd`, whose header lacks a
/// content size.
#[cfg(feature = "pure-encoder")]
fn blocks_of(frame: &[u8]) -> Option<&[u8]> {
    let (_, rest) = frame.split_first_chunk::<4>()?;
    let (descriptor, rest) = rest.split_first()?;
    // The expected header has no content size and no dictionary, so only the
    // window byte follows. Anything else comes from an unknown version of
    // ruzstd.
    let (_, blocks) = rest.split_first().filter(|_| descriptor & 0xE3 == 0)?;
    let checksum = if descriptor & 4 == 0 { 0 } else { 4 };
    blocks.get(..blocks.len().checked_sub(checksum)?)
}
