//! zstd frames written in Rust alone (RFC 8878): blocks of literals by our
//! own Huffman coder, matches by `ruzstd`.

use alloc::vec::Vec;

use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::Pure;
use super::huffman::{self, Code};
use crate::engine::{PackEngine, ZstdCoding};
use crate::limits::ZSTD_WINDOW_BYTES;

const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
const BLOCK_BYTES: usize = 128 << 10;
const RAW: usize = 0;
const RUN: usize = 1;
const COMPRESSED: usize = 2;
/// A code must save this part of a block: below, reading raw bytes is worth
/// more than the space. C zstd draws the line at the same place.
const LEAST_GAIN: usize = 64;
/// Literals up to this length go into one stream, which needs no table of
/// lengths.
const ONE_STREAM_BYTES: usize = 1023;

impl PackEngine for Pure {
    fn zstd_encode(&self, input: &[u8], coding: ZstdCoding, out: &mut Vec<u8>) {
        write_header(input.len(), out);
        let blocks_start = out.len();
        write_literals(input, out);
        if coding == ZstdCoding::Huffman {
            return;
        }
        // One level is all there is; what it makes of literals is often worse
        // than our own code.
        let searched = compress_to_vec(input, CompressionLevel::Fastest);
        if let Some(blocks) = blocks_of(&searched)
            && blocks.len() < out.len() - blocks_start
        {
            out.truncate(blocks_start);
            out.extend_from_slice(blocks);
        }
    }
}

/// Content size always, in a single segment where that is allowed; neither
/// checksum nor dictionary.
fn write_header(len: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&MAGIC);
    let len = len as u64;
    let bytes = len.to_le_bytes();
    match len {
        0..256 => out.extend_from_slice(&[0x20, bytes[0]]),
        256..0x1_0100 => {
            out.push(0x60);
            out.extend_from_slice(&(len - 256).to_le_bytes()[..2]);
        }
        0x1_0100..=ZSTD_WINDOW_BYTES => {
            out.push(0xA0);
            out.extend_from_slice(&bytes[..4]);
        }
        // A window of 128 KiB is all that the blocks below look back.
        _ => {
            out.extend_from_slice(&[0xC0, 7 << 3]);
            out.extend_from_slice(&bytes);
        }
    }
}

/// The blocks of a frame by `ruzstd`, whose own header has no content size.
fn blocks_of(frame: &[u8]) -> Option<&[u8]> {
    let (_, rest) = frame.split_first_chunk::<4>()?;
    let (descriptor, rest) = rest.split_first()?;
    // No content size, a window, no dictionary: one byte. Anything else would
    // be a version of ruzstd that we have not met.
    let (_, blocks) = rest.split_first().filter(|_| descriptor & 0xE3 == 0)?;
    let checksum = if descriptor & 4 == 0 { 0 } else { 4 };
    blocks.get(..blocks.len().checked_sub(checksum)?)
}

fn write_literals(input: &[u8], out: &mut Vec<u8>) {
    let mut before = None;
    let blocks = input.chunks(BLOCK_BYTES);
    let mut left = blocks.len();
    if left == 0 {
        write_block_header(RAW, 0, true, out);
    }
    for block in blocks {
        left -= 1;
        write_block(block, left == 0, &mut before, out);
    }
}

fn write_block_header(kind: usize, len: usize, last: bool, out: &mut Vec<u8>) {
    let header = usize::from(last) | kind << 1 | len << 3;
    out.extend_from_slice(&header.to_le_bytes()[..3]);
}

/// `before` is the code of the last block that had one.
fn write_block(block: &[u8], last: bool, before: &mut Option<Code>, out: &mut Vec<u8>) {
    let counts = huffman::count(block);
    if counts[usize::from(block[0])] as usize == block.len() {
        write_block_header(RUN, block.len(), last, out);
        out.push(block[0]);
        return;
    }
    let most = block.len() - block.len() / LEAST_GAIN;
    let mut literals = Vec::new();
    let fresh = Code::new(&counts);
    let cost = |code: &Code| code.cost_bits(&counts).map(|bits| bits.div_ceil(8));
    let by_fresh = fresh
        .as_ref()
        .and_then(|code| Some(cost(code)? + code.description().len()));
    let by_before = before.as_ref().and_then(cost);
    let reuse = by_before.is_some_and(|old| by_fresh.is_none_or(|new| old <= new));
    let code = if reuse { &*before } else { &fresh };
    if let Some(code) = code
        && by_before.into_iter().chain(by_fresh).min() < Some(most)
    {
        write_literals_section(block, code, reuse, &mut literals);
    }
    // One byte more says that no sequences follow.
    if literals.is_empty() || literals.len() + 1 >= most {
        write_block_header(RAW, block.len(), last, out);
        out.extend_from_slice(block);
        return;
    }
    write_block_header(COMPRESSED, literals.len() + 1, last, out);
    out.extend_from_slice(&literals);
    out.push(0);
    if !reuse {
        *before = fresh;
    }
}

/// The literals section of a block (3.1.1.3.1).
fn write_literals_section(block: &[u8], code: &Code, reuse: bool, out: &mut Vec<u8>) {
    let mut body = Vec::with_capacity(block.len() + 16);
    if !reuse {
        body.extend_from_slice(code.description());
    }
    let (format, size_bits) = if block.len() <= ONE_STREAM_BYTES {
        (0, 10)
    } else if block.len() < 1 << 14 {
        (2, 14)
    } else {
        (3, 18)
    };
    if format == 0 {
        code.encode(block, &mut body);
    } else {
        let table = body.len();
        body.extend_from_slice(&[0; 6]);
        for (number, part) in block.chunks(block.len().div_ceil(4)).enumerate() {
            let start = body.len();
            code.encode(part, &mut body);
            // At most 11 bits for each of 32 KiB. The last length is what is
            // left.
            let len = (body.len() - start).to_le_bytes();
            if number < 3 {
                body[table + 2 * number..][..2].copy_from_slice(&len[..2]);
            }
        }
    }
    let kind = if reuse { 3u64 } else { 2 };
    let header =
        kind | format << 2 | (block.len() as u64) << 4 | (body.len() as u64) << (4 + size_bits);
    let header_len = (4 + 2 * size_bits) / 8;
    out.extend_from_slice(&header.to_le_bytes()[..header_len]);
    out.extend_from_slice(&body);
}
