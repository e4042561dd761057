//! Estimates the cost of rANS from a sample of a plane, using the entropy of
//! its bytes. [`adaptive_len_bytes`](super::adaptive_len_bytes) and
//! [`shared_len_bytes`](super::shared_len_bytes) use the counts of a whole
//! plane and are exact to about 0.1 %.

use alloc::vec;

use crate::entropy::histogram::{self, entropy_bits};

/// Number of symbols that share a table: few enough for the table to fit them
/// well, and enough to justify its size.
pub const CHUNK_BYTES: usize = 1 << 16;
/// Average size of the head of a chunk in bytes, and of its table per symbol
/// that occurs.
const CHUNK_HEAD_BYTES: f64 = 20.0;
const TABLE_SYMBOL_BYTES: f64 = 1.5;
/// Size of the head and the table of a plane with a single table, in bytes.
const SHARED_HEAD_BYTES: f64 = 540.0;

/// Returns the size in bytes of chunks with these counts, as part of a plane
/// `scale` times as long. It is the smaller of the sizes with a table per chunk
/// and with a single table for the plane.
pub fn rans_bytes(chunks: &[[u64; 256]], scale: f64) -> f64 {
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

/// Returns the size in bytes of `bytes` at their entropy given the preceding
/// byte, including the table of all pairs that occur, which is written once for
/// the whole plane.
pub fn order1_bytes(bytes: &[u8], counts: &[u64; 256], scale: f64) -> f64 {
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
