//! Encoder of zstd frames (RFC 8878) that contain only literals, coded with
//! Huffman codes.

use alloc::vec::Vec;
use core::ops::Range;

use crate::bytes::index;
use crate::entropy::histogram::{count, huffman_bits, sum, values};
use crate::limits::ZSTD_WINDOW_BYTES;
use huffman::{Code, Counts};
use huffman_streams::{Scratch, Streams};

mod huffman;
mod huffman_streams;
mod huffman_weights;
#[cfg(target_arch = "x86_64")]
mod narrow_codes;

const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
/// The maximum number of literals of a block.
pub const BLOCK_BYTES: usize = 128 << 10;
/// The maximum length in bytes of the header that [`write_header`] writes.
const MAX_HEADER_BYTES: usize = 14;
const RAW: usize = 0;
const RUN: usize = 1;
const COMPRESSED: usize = 2;
/// A code must save at least 1/n of a block. Below that, reading raw bytes is
/// worth more than the space. C zstd uses the same threshold.
pub(crate) const MIN_GAIN_DIVISOR: usize = 64;
/// A flat code is preferred if it is longer than the shortest code by at most
/// 1/n.
const FLAT_PARTS: usize = 2048;
/// Up to this many literals are coded in one stream, which needs no table of
/// lengths.
pub(crate) const ONE_STREAM_BYTES: usize = 1023;

/// Appends one frame of `input` with its content size, in blocks of literals
/// that share Huffman codes where that is shorter.
///
/// Every engine implements [`ZstdCoding::Huffman`](crate::engine::ZstdCoding)
/// with this function, so they all write the same bytes.
pub fn encode_literals(input: &[u8], out: &mut Vec<u8>) {
    // A block takes at most three bytes more than its literals.
    out.reserve(MAX_HEADER_BYTES + input.len() + 3 * input.len().div_ceil(BLOCK_BYTES).max(1));
    write_header(input.len(), out);
    write_blocks(input, out);
}

pub(crate) fn write_blocks(input: &[u8], out: &mut Vec<u8>) {
    let mut writer = Writer::default();
    let blocks = input.chunks(BLOCK_BYTES);
    let mut left = blocks.len();
    if left == 0 {
        write_block_header(RAW, 0, true, out);
    }
    for block in blocks {
        left -= 1;
        writer.block(block, left == 0, out);
    }
}

/// Writes a frame header with a content size, as a single segment if that is
/// allowed, without checksum and dictionary.
pub(crate) fn write_header(len: usize, out: &mut Vec<u8>) {
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
        // A window of 128 KiB suffices, because the blocks contain no matches.
        _ => {
            out.extend_from_slice(&[0xC0, 7 << 3]);
            out.extend_from_slice(&bytes);
        }
    }
}

fn block_header(kind: usize, len: usize, last: bool) -> [u8; 3] {
    let [a, b, c, ..] = (usize::from(last) | kind << 1 | len << 3).to_le_bytes();
    [a, b, c]
}

fn write_block_header(kind: usize, len: usize, last: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(&block_header(kind, len, last));
}

/// Returns the size in bytes below which a code is worth using for a block. It
/// leaves one byte for the number of sequences, which is zero.
fn most(block: &[u8]) -> usize {
    block.len() - block.len() / MIN_GAIN_DIVISOR - 1
}

/// The state that the blocks of a frame share.
#[derive(Default)]
struct Writer {
    /// The most recent code of a block, which the next block may reuse.
    before: Option<(Code, Streams)>,
    scratch: Scratch,
}

impl Writer {
    fn block(&mut self, block: &[u8], last: bool, out: &mut Vec<u8>) {
        if let Some(bits) = huffman_streams::even_bits(block) {
            let reuse = match bits {
                // Incompressible bytes are stored.
                8 => None,
                _ => self.take_flat(bits),
            };
            return self.write(block, reuse, last, out);
        }
        for BlockPart { range, counts } in cut(block) {
            let last = last && range.end == block.len();
            let part = &block[range];
            if counts[usize::from(part[0])] == part.len() as u64 {
                write_block_header(RUN, part.len(), last, out);
                out.push(part[0]);
            } else {
                let reuse = self.choose(&counts, most(part));
                self.write(part, reuse, last, out);
            }
        }
    }

    /// Writes `block` with the code `before`, or uncompressed if `reuse` is
    /// `None` or the code gains too little. The description of the code is left
    /// out if `reuse` is true.
    fn write(&mut self, block: &[u8], reuse: Option<bool>, last: bool, out: &mut Vec<u8>) {
        let start = out.len();
        if let Some(reuse) = reuse
            && let Some((code, streams)) = &self.before
        {
            // The header is filled in when the length is known.
            out.extend_from_slice(&[0; 3]);
            let description = if reuse { &[] } else { code.description() };
            write_literals_section(block, streams, description, &mut self.scratch, out);
            out.push(0);
            let len = out.len() - start - 3;
            if len <= most(block) {
                out[start..start + 3].copy_from_slice(&block_header(COMPRESSED, len, last));
                return;
            }
            out.truncate(start);
            if !reuse {
                self.before = None;
            }
        }
        write_block_header(RAW, block.len(), last, out);
        out.extend_from_slice(block);
    }

    /// Sets `before` to a flat code. Returns whether it already was that code.
    fn take_flat(&mut self, bits: u32) -> Option<bool> {
        let before = self.before.as_ref().and_then(|(code, _)| code.flat_bits());
        if before == Some(bits) {
            return Some(true);
        }
        self.before = Some((Code::of_bits(bits)?, Streams::Flat { bits }));
        Some(false)
    }

    /// Sets `before` to the best code for a block, if one is expected to make
    /// it smaller than `most` bytes. Returns whether it already was that code.
    fn choose(&mut self, counts: &Counts, most: usize) -> Option<bool> {
        let cost = |code: &Code| code.cost_bits(counts).map(|bits| bits.div_ceil(8));
        let by_before = self.before.as_ref().and_then(|(code, _)| cost(code));
        let fresh = Code::new(counts);
        let by_fresh = fresh
            .as_ref()
            .and_then(|code| Some(cost(code)? + code.description().len()));
        let least = by_before.into_iter().chain(by_fresh).min()?;
        if least >= most {
            return None;
        }
        // A flat code is written and read several times as fast.
        let flat_most = least + least / FLAT_PARTS;
        let before_is_flat = self
            .before
            .as_ref()
            .is_some_and(|(code, _)| code.flat_bits().is_some());
        let reuse = by_before == Some(least)
            || before_is_flat && by_before.is_some_and(|len| len <= flat_most);
        if reuse {
            return Some(true);
        }
        let flat = Code::flat(counts).filter(|code| {
            cost(code).is_some_and(|len| len + code.description().len() <= flat_most)
        });
        if let Some(code) = flat.or(fresh) {
            let streams = Streams::new(&code, counts);
            self.before = Some((code, streams));
        }
        Some(reuse)
    }
}

/// Writes the literals section of a block (3.1.1.3.1). Without a description,
/// the section uses the code of the previous block.
fn write_literals_section(
    block: &[u8],
    streams: &Streams,
    description: &[u8],
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) {
    let (format, size_bits) = if block.len() <= ONE_STREAM_BYTES {
        (0, 10)
    } else if block.len() < 1 << 14 {
        (2, 14)
    } else {
        (3, 18)
    };
    let start = out.len();
    let header_len = (4 + 2 * size_bits) / 8;
    out.extend_from_slice(&[0; 5][..header_len]);
    out.extend_from_slice(description);
    if format == 0 {
        streams.write(block, scratch, out);
    } else {
        let table = out.len();
        out.extend_from_slice(&[0; 6]);
        let lens = streams.write_four(block, scratch, out);
        // The last length is not written, because it follows from the total.
        for (dest, len) in out[table..table + 6].chunks_exact_mut(2).zip(lens) {
            // The length fits in 16 bits: at most 11 bits for each of 32 KiB
            // symbols.
            dest.copy_from_slice(&len.to_le_bytes()[..2]);
        }
    }
    let body = out.len() - start - header_len;
    let kind = if description.is_empty() { 3u64 } else { 2 };
    let header = kind | format << 2 | (block.len() as u64) << 4 | (body as u64) << (4 + size_bits);
    out[start..start + header_len].copy_from_slice(&header.to_le_bytes()[..header_len]);
}

/// Minimum length of a part in bytes.
const MIN_BYTES: usize = 32 << 10;
/// Average overhead of a part in bytes, apart from its streams: headers, and
/// the head of the code's description.
const HEADS_BYTES: usize = 16;
/// The least gain of a division in bytes, because a reader builds tables for
/// each part.
const CUT_BYTES: usize = 48;

/// A part of a block, which is encoded as a block of its own.
struct BlockPart {
    pub range: Range<usize>,
    pub counts: Counts,
}

impl BlockPart {
    /// Merges this part with the next one.
    fn with(&self, next: &Self) -> Self {
        Self {
            range: self.range.start..next.range.end,
            counts: sum(&[self.counts, next.counts]),
        }
    }

    fn cost_bytes(&self) -> usize {
        // The code of a value takes half a byte in the description.
        let heads_bytes = HEADS_BYTES + values(&self.counts) / 2;
        heads_bytes + index(huffman_bits(&self.counts) / 8)
    }

    /// Returns whether two parts are so similar that separate codes would gain
    /// less than the headers of another part cost.
    ///
    /// For parts of equal length, the sum computed here is an upper bound in
    /// bits for the gain at their entropy. If the parts differ by chance only,
    /// it is about 1 for each value (Topsøe 2000, on the Jensen-Shannon
    /// divergence).
    fn is_like(&self, other: &Self) -> bool {
        let differences = self.counts.iter().zip(&other.counts);
        let bits = differences.map(|(&a, &b)| a.abs_diff(b).pow(2) / (a + b).max(1));
        self.range.len() == other.range.len()
            && bits.sum::<u64>() <= 8 * (HEADS_BYTES + CUT_BYTES) as u64
    }
}

/// Consecutive parts.
type Run = Vec<BlockPart>;

/// Concatenates both runs. If each is a single part and one merged part would
/// cost no more than both, it merges them instead.
fn followed_by(mut run: Run, next: Run) -> Run {
    if let ([one], [two]) = (&run[..], &next[..]) {
        let whole = one.with(two);
        let as_they_are = || one.cost_bytes() + two.cost_bytes() + CUT_BYTES;
        if one.is_like(two) || whole.cost_bytes() <= as_they_are() {
            return [whole].into();
        }
    }
    run.extend(next);
    run
}

/// Returns the parts of `block`: halves and quarters, or a single part.
fn cut(block: &[u8]) -> Vec<BlockPart> {
    let starts = (0..block.len()).step_by(MIN_BYTES);
    let mut runs: Vec<Run> = starts
        .map(|start| {
            let range = start..block.len().min(start + MIN_BYTES);
            let counts = count(&block[range.clone()]);
            [BlockPart { range, counts }].into()
        })
        .collect();
    while runs.len() > 1 {
        let mut pairs = runs.into_iter();
        let mut next = Vec::new();
        while let Some(one) = pairs.next() {
            next.push(match pairs.next() {
                Some(two) => followed_by(one, two),
                None => one,
            });
        }
        runs = next;
    }
    runs.pop().unwrap_or_default()
}
