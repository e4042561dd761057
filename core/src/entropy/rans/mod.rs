//! Range ANS, plane methods 3 to 5 (docs/formats/z4ai-frames.md 5 to 8).
//!
//! Each method has a payload type (`parse`, then `decode`) and an `encode`.
//!
//! `parse` needs no engine and decodes nothing. It checks every field, and that
//! the payload can hold the number of symbols that the enclosing frame states
//! (see `capacity`), so a caller may then allocate the plane. The packed tables
//! of methods 4 and 5 are read only by `decode`, which checks them, and the
//! number of symbols against them, before it decodes a symbol. Until then,
//! `parse` assumes the cheapest possible tables, so the length that it accepts
//! is bounded whatever the tables contain.

mod adaptive;
#[cfg(target_arch = "x86_64")]
mod avx2;
mod capacity;
pub mod cost;
mod order1;
mod shared;
mod state;
mod stream;
mod table;

pub use adaptive::{
    Adaptive, chunk_counts, encode as encode_adaptive, encode_counted as encode_adaptive_counted,
    expected_len_bytes as adaptive_len_bytes,
};
pub use order1::{MAX_SYMBOLS as ORDER1_MAX_SYMBOLS, Order1, encode as encode_order1};
pub use shared::{
    Shared, encode as encode_shared, encode_counted as encode_shared_counted,
    expected_len_bytes as shared_len_bytes,
};

use alloc::format;
use alloc::vec::Vec;

use crate::bytes::Cursor;
use crate::{Error, Result, Rule};

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
