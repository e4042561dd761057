//! Estimates the length of a zstd frame of literals from byte counts. The same
//! model is used for samples and for whole planes. The overheads are averages;
//! the payloads are exact except for rounding.

use super::encode::{BLOCK_BYTES, ONE_STREAM_BYTES};
use crate::entropy::histogram::{self, entropy_bits, huffman_bits};

/// Average length of the headers of a block in bytes, without the description of
/// its code.
const BLOCK_HEADS_BYTES: usize = 30;
/// Number of values whose code lengths take one byte together in the description of a
/// code.
const VALUES_PER_BYTE: usize = 2;
/// Length in bytes of a block that repeats a single byte, including its entry in
/// a block table.
const RUN_BLOCK_BYTES: f64 = 8.0;
/// Length in bytes of a frame that repeats a single byte.
pub(crate) const RUN_FRAME_BYTES: usize = 11;
/// Length in bytes of the headers of a frame whose block is stored uncompressed.
pub(crate) const RAW_HEADS_BYTES: usize = 10;

/// Returns the length in bytes of `len` bytes with these counts in an optimal
/// Huffman code, including their part of the block headers of a plane `scale`
/// times as long. The result is at most `len`.
pub(crate) fn huffman_bytes(counts: &[u64; 256], len: f64, scale: f64) -> f64 {
    let values = histogram::values(counts);
    let blocks = (len * scale / BLOCK_BYTES as f64).max(1.0) / scale;
    if values < 2 {
        return (blocks * RUN_BLOCK_BYTES).min(len);
    }
    // A code fits the sample it was made from better than the plane, by half a
    // nat (0.72 bits) for each free value.
    let chance = (values - 1) as f64 * 0.72 * (1.0 - 1.0 / scale);
    let bits = huffman_bits(counts) as f64 + chance;
    let heads = BLOCK_HEADS_BYTES as f64 + values as f64 / VALUES_PER_BYTE as f64;
    (bits / 8.0 + blocks * heads).min(len)
}

/// Returns the approximate length in bytes of a zstd frame of literals with
/// these counts, whose codes take `bits` bits.
///
/// The description of a code lists the code lengths, which are close to the
/// logarithms of the counts.
pub(crate) fn huffman_frame_bytes(counts: &[u64; 256], len_bytes: usize, bits: usize) -> usize {
    /// Length in bytes of the headers of frame, block and literals, and of the
    /// table of stream lengths if there are four streams.
    const HEADS_BYTES: usize = 15;
    const STREAMS_BYTES: usize = 7;
    /// Length in bytes of a compressed description without its code lengths, and
    /// of the description of a flat code.
    const DESCRIPTION_BYTES: usize = 5;
    const FLAT_DESCRIPTION_BYTES: usize = 8;
    let last = counts.iter().rposition(|&count| count > 0).unwrap_or(0);
    let mut classes = [0u64; 16];
    for count in &counts[..last] {
        classes[count
            .checked_ilog2()
            .map_or(0, |log| log as usize + 1)
            .min(15)] += 1;
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most 128
    let mut description = DESCRIPTION_BYTES + (entropy_bits(&classes) / 8.0) as usize;
    let mut flat = usize::MAX;
    if last < 128 {
        // Each length takes four bits.
        description = description.min(1 + last.div_ceil(2));
        flat = len_bytes * (last.max(1).ilog2() as usize + 1) / 8 + FLAT_DESCRIPTION_BYTES;
    }
    let streams = match len_bytes > ONE_STREAM_BYTES {
        true => STREAMS_BYTES,
        false => 0,
    };
    (bits / 8 + description).min(flat) + HEADS_BYTES + streams
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::bytes;
    use crate::entropy::histogram::count;
    use crate::entropy::zstd::encode_literals;

    /// Returns `len` pseudo-random bytes below `values`. If `is_skewed`, larger
    /// bytes are less frequent.
    fn noise(len: usize, values: u64, is_skewed: bool) -> Vec<u8> {
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            (state >> 33) % values
        };
        let mut value = || {
            if is_skewed {
                next() * next() / values
            } else {
                next()
            }
        };
        (0..len).map(|_| value().to_le_bytes()[0]).collect()
    }

    #[test]
    fn the_length_of_a_frame_follows_from_counts() {
        for (len, values, is_skewed) in [
            (300, 20, false),
            (384, 100, true),
            (1000, 128, false),
            (2048, 128, false),
            (2048, 24, true),
            (4096, 200, true),
            (16384, 60, true),
        ] {
            let input = noise(len, values, is_skewed);
            let counts = count(&input);
            let bits = bytes::index(huffman_bits(&counts));
            let expected = huffman_frame_bytes(&counts, len, bits).min(len + RAW_HEADS_BYTES);
            let mut frame = Vec::new();
            encode_literals(&input, &mut frame);
            let off = frame.len().abs_diff(expected);
            assert!(off <= 12, "{len} {values}: {} for {expected}", frame.len());
        }
    }

    #[test]
    fn noise_does_not_shrink() {
        let all: Vec<u8> = (0..=255).cycle().take(1 << 16).collect();
        assert!((huffman_bytes(&count(&all), 65536.0, 1.0) - 65536.0).abs() < 1e-9);
    }
}
