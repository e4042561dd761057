//! What rANS costs, estimated from a sample of a plane by the entropy of its
//! bytes. [`adaptive_len_bytes`](super::adaptive_len_bytes) and
//! [`shared_len_bytes`](super::shared_len_bytes) take the counts of a whole
//! plane and are exact to a thousandth.

use alloc::vec;

use crate::entropy::histogram::{self, entropy_bits};

/// Symbols that share a table: few enough for the table to fit them, and enough
/// to pay for it.
pub const CHUNK_BYTES: usize = 1 << 16;
/// Average bytes of the head of a chunk, and of its table for each symbol that
/// occurs.
const CHUNK_HEAD_BYTES: f64 = 20.0;
const TABLE_SYMBOL_BYTES: f64 = 1.5;
/// Bytes of the head and the table of a plane with a single table.
const SHARED_HEAD_BYTES: f64 = 540.0;

/// Returns the size of chunks with these counts, in bytes, as part of a plane
/// `scale` times as long: with a table for each chunk or one for the plane,
/// whichever is smaller.
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

/// Returns the entropy of the bytes given the byte before each, in bytes,
/// including the table of all pairs that occur, which is written once for the
/// whole plane.
pub fn order1_bytes(bytes: &[u8], counts: &[u64; 256], scale: f64) -> f64 {
    // Numbers the values that occur, for rows and columns. The context of the
    // first byte is a zero.
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
