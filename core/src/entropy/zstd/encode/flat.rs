//! Flat codes. In a flat code, every value below a power of two is its own
//! code. This module decides whether a flat code is best, and writes it: eight
//! symbols fill whole bytes and are packed with shifts.

use super::huffman::lens;
use super::streams::Sink;

/// Minimum length of a block whose samples are representative.
const MIN_SAMPLED_BYTES: usize = 1 << 15;

/// Returns the number of bits of a flat code (`Code::of_bits`) for a block
/// whose shortest code is flat or nearly flat. A result of 8 bits means that
/// the block is incompressible.
///
/// The decision uses every eighth line of 64 bytes: the best code of one half
/// of these lines must not compress the other half. Counting the whole block
/// would take longer than writing it.
pub fn even_bits(block: &[u8]) -> Option<u32> {
    if block.len() < MIN_SAMPLED_BYTES {
        return None;
    }
    let bits = u8::BITS - block.iter().fold(0, |all, byte| all | byte).leading_zeros();
    let mut halves = [[0u64; 256]; 2];
    // A value that is far more frequent than the others is detected early.
    let (start, _) = block.split_at(1 << 10);
    start
        .iter()
        .for_each(|&byte| halves[0][usize::from(byte)] += 1);
    if halves[0].iter().any(|&count| count > 1 << (13 - bits)) {
        return None;
    }
    let (lines, _) = block.as_chunks::<64>();
    for pair in lines.chunks_exact(16) {
        for (counts, line) in halves.iter_mut().zip(pair.iter().step_by(8)) {
            line.iter().for_each(|&byte| counts[usize::from(byte)] += 1);
        }
    }
    let lens = lens(&halves[0])?;
    let longest = u64::from(lens.iter().copied().max().unwrap_or(0));
    let (mut by_code, mut by_flat) = (0, 0);
    for (&count, &len) in halves[1].iter().zip(&lens) {
        by_flat += count * u64::from(bits);
        by_code += count * if len == 0 { longest } else { len.into() };
    }
    // The description of another code takes about a thousandth of the block.
    (by_code >= by_flat - by_flat / 1024).then_some(bits)
}

/// Number of symbols of a flat code that always fill whole bytes.
const GROUP: usize = 8;
/// Number of groups that are packed between two checks of the remaining space.
const RUN: usize = 8;
/// Number of bytes that may be written past the end of a stream.
pub const SLACK_BYTES: usize = 8 * RUN;

/// Writes one stream of symbols of `bits` bits each, 1 to 7.
pub fn write(bits: u32, symbols: &[u8], sink: &mut Sink) {
    let (rest, groups) = symbols.as_rchunks::<GROUP>();
    match bits {
        // The mantissas of bfloat16 have seven bits. Passing a constant lets
        // the compiler use constant shifts.
        7 => put_together(7, sevens_at_once(groups, sink), sink),
        _ => put_together(bits, groups, sink),
    }
    for &symbol in rest.iter().rev() {
        sink.hold(symbol.into(), bits);
        sink.flush();
    }
}

/// Packs groups of seven-bit symbols with vectors, and returns the remaining
/// groups, which precede the packed ones.
#[cfg(target_arch = "x86_64")]
fn sevens_at_once<'a>(groups: &'a [[u8; GROUP]], sink: &mut Sink) -> &'a [[u8; GROUP]] {
    use crate::entropy::zstd::avx2::{CODED_BYTES, SYMBOLS, pack};
    let (_, symbols) = groups.as_flattened().as_rchunks::<SYMBOLS>();
    let done = pack(symbols, &mut sink.buf[sink.at..]).unwrap_or(0);
    sink.at += done * CODED_BYTES;
    &groups[..groups.len() - done * SYMBOLS / GROUP]
}

#[cfg(not(target_arch = "x86_64"))]
fn sevens_at_once<'a>(groups: &'a [[u8; GROUP]], _: &mut Sink) -> &'a [[u8; GROUP]] {
    groups
}

#[inline(always)]
fn put_together(bits: u32, groups: &[[u8; GROUP]], sink: &mut Sink) {
    let step = bits as usize;
    let (rest, runs) = groups.as_rchunks::<RUN>();
    for run in runs.iter().rev() {
        if let Some(dest) = sink.buf[sink.at..].first_chunk_mut::<{ 8 * RUN }>() {
            for (k, group) in run.iter().rev().enumerate() {
                // The next group overwrites the surplus bytes.
                dest[k * step..k * step + 8].copy_from_slice(&together(bits, group));
            }
        }
        sink.at += RUN * step;
    }
    for group in rest.iter().rev() {
        if let Some(dest) = sink.buf[sink.at..].first_chunk_mut() {
            *dest = together(bits, group);
        }
        sink.at += step;
    }
}

/// Packs the symbols of a group into `bits` bits each. The last symbol is the
/// lowest.
#[inline(always)]
fn together(bits: u32, group: &[u8; GROUP]) -> [u8; 8] {
    const BYTES: u64 = 0x00FF_00FF_00FF_00FF;
    const PAIRS: u64 = 0x0000_FFFF_0000_FFFF;
    let word = u64::from_be_bytes(*group);
    let word = word & BYTES | (word >> 8 & BYTES) << bits;
    let word = word & PAIRS | (word >> 16 & PAIRS) << (2 * bits);
    let word = word & 0xFFFF_FFFF | (word >> 32) << (4 * bits);
    word.to_le_bytes()
}
