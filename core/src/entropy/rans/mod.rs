//! Range ANS, plane methods 3 to 5 (docs/formats/z4ai-frames.md 5 to 8).
//!
//! Each method has a payload type (`parse`, then `decode`) and an `encode`.
//!
//! `parse` needs no engine and decodes nothing. It checks every field, and that
//! the payload can hold the number of symbols that the enclosing frame states
//! (see `state`), so a caller may then allocate the plane. The packed tables
//! of methods 4 and 5 are read only by `decode`, which checks them, and the
//! number of symbols against them, before it decodes a symbol. Until then,
//! `parse` assumes the cheapest possible tables, so the length that it accepts
//! is bounded whatever the tables contain.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use crate::bytes::Cursor;
use crate::entropy::histogram::{self, entropy_bits};
use crate::{Error, Result, Rule};

#[cfg(target_arch = "x86_64")]
mod avx2;
mod order0;
mod order1;
mod state;
mod stream;
mod table;

pub(crate) use order0::shared_len_bytes;
pub use order0::{Adaptive, encode_adaptive};
pub use order0::{Shared, encode_shared};
pub(crate) use order0::{adaptive_len_bytes, chunk_counts};
pub(crate) use order1::MAX_SYMBOLS as ORDER1_MAX_SYMBOLS;
pub use order1::{Order1, encode as encode_order1};

/// Returns the index of the first symbol of part `i` when `n` symbols are split
/// into `k` parts: `floor(i*n/k)`, for `i <= k < 2^32`.
fn bound(i: u64, n: u64, k: u64) -> u64 {
    i * (n / k) + i * (n % k) / k
}

/// Returns the number of symbols in each of `k` parts of `n` symbols.
fn part_lens(n: u64, k: u64) -> impl Iterator<Item = u64> {
    (0..k).map(move |i| bound(i + 1, n, k) - bound(i, n, k))
}

/// Splits a plane into `k` parts.
fn split(mut plane: &[u8], k: usize) -> Vec<&[u8]> {
    let n = plane.len();
    let mut parts = Vec::with_capacity(k);
    for len in part_lens(n as u64, k as u64) {
        let (part, rest) = plane.split_at(crate::bytes::index(len));
        parts.push(part);
        plane = rest;
    }
    parts
}

/// Splits the output buffer of a plane into `k` parts.
fn split_mut(mut plane: &mut [u8], k: usize) -> Vec<&mut [u8]> {
    let n = plane.len();
    let mut parts = Vec::with_capacity(k);
    for len in part_lens(n as u64, k as u64) {
        let (part, rest) = plane.split_at_mut(crate::bytes::index(len));
        parts.push(part);
        plane = rest;
    }
    parts
}

/// Checks a symbol count and a chunk count against the plane's length, which
/// must not be 0.
fn check_counts(symbols: u64, chunks: u64, len_bytes: u64) -> Result<()> {
    if symbols != len_bytes {
        return Err(Error::malformed(
            Rule::RansHead,
            format!("a rANS plane of {len_bytes} bytes has {symbols} symbols"),
        ));
    }
    if chunks == 0 || chunks > symbols {
        return Err(Error::malformed(
            Rule::RansHead,
            format!("{chunks} chunks for {symbols} rANS symbols"),
        ));
    }
    Ok(())
}

/// Reads the chunks that fill the rest of the payload. `lens` is the table of
/// their lengths. A length below `least_bytes` is an error.
fn take_chunks<'a>(
    cursor: &mut Cursor<'a>,
    lens: &[u8],
    least_bytes: u64,
) -> Result<Vec<&'a [u8]>> {
    let mut lens = Cursor::new(lens);
    let mut chunks = Vec::with_capacity(lens.remaining() / 4);
    while lens.remaining() > 0 {
        let len = u64::from(lens.u32("chunk length")?);
        let at = cursor.position() as u64;
        if len < least_bytes {
            return Err(Error::malformed(
                Rule::RansChunks,
                format!("a rANS chunk has {len} bytes, under {least_bytes}"),
            )
            .at(at));
        }
        chunks.push(cursor.take(len, "rANS chunk")?);
    }
    if cursor.remaining() != 0 {
        return Err(Error::malformed(
            Rule::RansChunks,
            format!("{} bytes follow the last rANS chunk", cursor.remaining()),
        )
        .at(cursor.position() as u64));
    }
    Ok(chunks)
}

/// Appends the lengths of `chunks` in the format of their table.
fn write_lens(out: &mut Vec<u8>, chunks: &[Vec<u8>]) {
    for chunk in chunks {
        out.extend_from_slice(&len_u32(chunk).to_le_bytes());
    }
}

/// Returns the length of encoded data as the 32-bit number that the format
/// stores.
fn len_u32(coded: &[u8]) -> u32 {
    u32::try_from(coded.len()).expect("a coded part of less than 4 GiB")
}

/// Number of symbols that share a table: few enough for the table to fit them
/// well, and enough to justify its size.
pub const CHUNK_BYTES: usize = 1 << 16;
/// Average size of the head of a chunk in bytes, and of its table per symbol
/// that occurs.
const CHUNK_HEAD_BYTES: f64 = 20.0;
const TABLE_SYMBOL_BYTES: f64 = 1.5;
/// Size of the head and the table of a plane with a single table, in bytes.
const SHARED_HEAD_BYTES: f64 = 540.0;

/// Estimates the size in bytes of chunks with these counts, which are a sample
/// of a plane `scale` times as long. It is the smaller of the sizes with a
/// table per chunk and with a single table for the plane.
pub(crate) fn rans_bytes(chunks: &[[u64; 256]], scale: f64) -> f64 {
    adaptive_bytes(chunks, scale).min(shared_bytes(&histogram::sum(chunks), scale))
}

fn adaptive_bytes(chunks: &[[u64; 256]], scale: f64) -> f64 {
    let bytes = chunks.iter().map(|counts| {
        let head = CHUNK_HEAD_BYTES + histogram::values(counts) as f64 * TABLE_SYMBOL_BYTES;
        let len = counts.iter().sum::<u64>().max(1) as f64;
        let shares = (CHUNK_BYTES as f64 / len).clamp(1.0, scale);
        entropy_bits(counts) / 8.0 + head / shares
    });
    bytes.sum()
}

fn shared_bytes(counts: &[u64; 256], scale: f64) -> f64 {
    // A table fits the sample it was made from better than the plane, by half a
    // nat (0.72 bits) for each free value.
    let chance = histogram::values(counts).saturating_sub(1) as f64 * 0.72 * (1.0 - 1.0 / scale);
    (entropy_bits(counts) + chance) / 8.0 + SHARED_HEAD_BYTES / scale
}

/// Estimates the size in bytes of `bytes` if each byte is coded at its entropy
/// given the preceding byte. The estimate includes a share of the table of all
/// pairs that occur, which is written once for a plane `scale` times as long.
pub(crate) fn order1_bytes(bytes: &[u8], counts: &[u64; 256], scale: f64) -> f64 {
    // Assigns consecutive indices to the values that occur, for rows and
    // columns. The context of the first byte is zero.
    let mut numbers = [0; 256];
    let mut values = 0;
    for (value, number) in numbers.iter_mut().enumerate() {
        if value == 0 || counts[value] > 0 {
            *number = values;
            values += 1;
        }
    }
    let mut pairs = vec![0u64; values * values];
    let mut row = 0;
    for &byte in bytes {
        let column = numbers[usize::from(byte)];
        pairs[row * values + column] += 1;
        row = column;
    }
    let bits: f64 = pairs.chunks(values).map(entropy_bits).sum();
    bits / 8.0 + histogram::values(&pairs) as f64 * TABLE_SYMBOL_BYTES / scale
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::entropy::histogram::count;

    #[test]
    fn parts_are_even_and_need_no_wide_products() {
        let lens: Vec<u64> = part_lens(11, 4).collect();
        assert_eq!(lens, [2, 3, 3, 3]);
        let n = u64::MAX >> 1;
        let k = u64::from(u32::MAX);
        for i in [0, 1, k / 2, k - 1, k] {
            let exact = u128::from(i) * u128::from(n) / u128::from(k);
            assert_eq!(u128::from(bound(i, n, k)), exact);
        }
    }

    #[test]
    fn noise_does_not_shrink() {
        let all: Vec<u8> = (0..=255).cycle().take(1 << 16).collect();
        assert!(rans_bytes(&[count(&all)], 1.0) > 65536.0);
    }

    #[test]
    fn bytes_determined_by_the_byte_before_are_free() {
        let pairs: Vec<u8> = [1, 2].into_iter().cycle().take(1000).collect();
        assert!(order1_bytes(&pairs, &count(&pairs), 1.0) < 8.0);
    }
}
