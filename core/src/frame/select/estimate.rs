//! What coding a plane would gain, from its byte counts and one trial.

use alloc::vec::Vec;

use super::{Effort, PlaneRecipe};
use crate::engine::{PackEngine, ZstdCoding};

/// Least gain, in parts of one, for which a plane is coded at all: below it
/// the reader's time is worth more than the bytes.
const LEAST_GAIN: f64 = 0.005;
/// zstd leaves literals as they are when Huffman gains less than a 64th.
const HUFFMAN_LEAST_GAIN: f64 = 1.0 / 64.0;
/// What Huffman codes cost above the entropy, tables included; measured on
/// exponent planes of real weights (2.591 bits against 2.545).
const HUFFMAN_OVERHEAD: f64 = 1.02;
/// Estimates closer than this are settled by trying both on every block.
const CLOSE: f64 = 1.02;

/// A recipe for the plane sampled, and the bytes the sample would take.
pub fn judge<E: PackEngine>(engine: &E, plane: &[u8], effort: Effort) -> (PlaneRecipe, f64) {
    let len = plane.len() as f64;
    let entropy_bytes = len * entropy_bits(plane) / 8.0;
    let mut huffman = (entropy_bytes * HUFFMAN_OVERHEAD).max(len / 8.0);
    if huffman > len * (1.0 - HUFFMAN_LEAST_GAIN) {
        huffman = len;
    }
    let mut trial = Vec::new();
    engine.zstd_encode(plane, ZstdCoding::Search(effort.search_level()), &mut trial);
    let search = trial.len() as f64;

    let least = huffman.min(search);
    if least > len * (1.0 - LEAST_GAIN) {
        return (PlaneRecipe::Store, len);
    }
    let recipe = PlaneRecipe::zstd(effort, huffman <= search * CLOSE, search <= huffman * CLOSE);
    (recipe, least)
}

/// Order-0 entropy, in bits per byte.
fn entropy_bits(bytes: &[u8]) -> f64 {
    // Four tables, so that runs of one value do not wait for each other.
    let mut counts = [[0u32; 256]; 4];
    for group in bytes.chunks(4) {
        for (table, &byte) in counts.iter_mut().zip(group) {
            table[usize::from(byte)] += 1;
        }
    }
    let total = bytes.len() as f64;
    (0..256)
        .map(|value| counts.iter().map(|table| table[value]).sum::<u32>())
        .filter(|&count| count > 0)
        .map(|count| f64::from(count) / total)
        .map(|share| -share * log2(share))
        .sum()
}

/// Base-2 logarithm of a share in (0, 1], to about 1e-7. `core` has none, and
/// a platform's own could differ in the last bit and so change the output.
fn log2(share: f64) -> f64 {
    let bits = share.to_bits();
    let exponent = (bits >> 52) as i32 - 1023;
    // The mantissa as a number in [1, 2), then its logarithm by the series of
    // artanh, which converges fast for arguments below a third.
    let mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    let t = (mantissa - 1.0) / (mantissa + 1.0);
    let square = t * t;
    let mut term = t;
    let mut sum = 0.0;
    for k in 0..8 {
        sum += term / f64::from(2 * k + 1);
        term *= square;
    }
    f64::from(exponent) + 2.0 * sum * core::f64::consts::LOG2_E
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_close_enough() {
        for k in 1..=1000 {
            let share = f64::from(k) / 1000.0;
            assert!((log2(share) - share.log2()).abs() < 1e-6, "{share}");
        }
    }

    #[test]
    fn entropy_of_known_distributions() {
        assert!(entropy_bits(&[7; 4096]).abs() < 1e-9);
        let all: Vec<u8> = (0..=255).cycle().take(4096).collect();
        assert!((entropy_bits(&all) - 8.0).abs() < 1e-6);
        let half: Vec<u8> = (0..4096).map(|i| (i % 2) as u8).collect();
        assert!((entropy_bits(&half) - 1.0).abs() < 1e-6);
    }
}
