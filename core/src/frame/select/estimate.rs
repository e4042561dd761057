//! What coding a plane would gain: Huffman by arithmetic, a search and rANS
//! by trial, all on a sample.

use alloc::vec::Vec;

use super::{Effort, zstd};
use crate::engine::{PackEngine, ZstdCoding};
use crate::entropy::rans;
use crate::frame::z4ai::PlaneRecipe;

/// zstd leaves literals as they are when Huffman gains less than a 64th.
const LEAST_GAIN: f64 = 1.0 / 64.0;
/// A search is worth its time, the packer's and the reader's, if it gains
/// this much on Huffman codes alone.
const SEARCH_GAIN: f64 = 0.01;
/// Up to this gain both are tried on every block: the sample may be wrong.
const CLOSE: f64 = 0.04;
/// Bytes of a Huffman table and of the headers of a block of 128 KiB.
const BLOCK_HEADS_BYTES: f64 = 110.0;

/// rANS decodes several times slower, so it has to gain this much.
const RANS_GAIN: f64 = 0.005;
/// Only where codes are this short, in bits, do whole bits cost Huffman that
/// much; elsewhere the trial is saved unless size is all that counts.
const RANS_MOST_BITS: f64 = 2.0;

const PIECES: usize = 4;
const PIECE_BYTES: usize = 16 << 10;

/// A recipe for the plane sampled, and the bytes the sample would take.
pub fn judge<E: PackEngine>(
    engine: &E,
    plane: &[u8],
    effort: Effort,
    may_rans: bool,
) -> (PlaneRecipe, f64) {
    let len = plane.len() as f64;
    let huffman = huffman_bytes(plane);
    let pieces = pieces(plane);
    let mut trial = Vec::new();
    engine.zstd_encode(
        &pieces,
        ZstdCoding::Search(effort.trial_level()),
        &mut trial,
    );
    // How much smaller than Huffman codes the search makes the same pieces.
    let by_huffman = huffman_bytes(&pieces).max(1.0);
    let search_gain = 1.0 - trial.len() as f64 / by_huffman;
    let search = huffman * (1.0 - search_gain);

    let short_codes = huffman.min(search) * 8.0 < len * RANS_MOST_BITS;
    if may_rans
        && !pieces.is_empty()
        && (short_codes && effort != Effort::Fast || effort == Effort::Max)
    {
        let by_rans = rans::encode_adaptive(engine, &pieces).len() as f64;
        let least = if effort == Effort::Max {
            0.0
        } else {
            RANS_GAIN
        };
        if by_rans < by_huffman.min(trial.len() as f64) * (1.0 - least) {
            return (PlaneRecipe::Rans, huffman * by_rans / by_huffman);
        }
    }

    if huffman.min(search) > len * (1.0 - LEAST_GAIN) {
        return (PlaneRecipe::Store, len);
    }
    if search_gain < SEARCH_GAIN {
        return (zstd(effort, true, false), huffman);
    }
    (zstd(effort, search_gain < CLOSE, true), search)
}

/// Evenly spread parts of a sample, which is too long for a slow trial.
fn pieces(plane: &[u8]) -> Vec<u8> {
    if plane.len() <= PIECES * PIECE_BYTES {
        return plane.to_vec();
    }
    let step = (plane.len() - PIECE_BYTES) / (PIECES - 1);
    (0..PIECES)
        .flat_map(|k| &plane[k * step..k * step + PIECE_BYTES])
        .copied()
        .collect()
}

/// Size of the bytes in an optimal Huffman code, with the heads of its blocks;
/// never more than the bytes themselves.
fn huffman_bytes(bytes: &[u8]) -> f64 {
    // Four tables, so that runs of one value do not wait for each other.
    let mut counts = [[0u64; 256]; 4];
    for group in bytes.chunks(4) {
        for (table, &byte) in counts.iter_mut().zip(group) {
            table[usize::from(byte)] += 1;
        }
    }
    let mut weights: Vec<u64> = (0..256)
        .map(|value| counts.iter().map(|table| table[value]).sum())
        .filter(|&count| count > 0)
        .collect();
    let len = bytes.len() as f64;
    let blocks = (len / f64::from(128 << 10)).max(1.0);
    (code_bits(&mut weights) as f64 / 8.0 + blocks * BLOCK_HEADS_BYTES).min(len)
}

/// Length of an optimal prefix code for symbols of these counts, in bits: the
/// sum of all inner nodes of Huffman's tree, built with two sorted queues.
fn code_bits(weights: &mut [u64]) -> u64 {
    if let [only] = weights {
        return *only;
    }
    weights.sort_unstable();
    let mut inner: Vec<u64> = Vec::with_capacity(weights.len());
    let (mut leaf, mut node) = (0, 0);
    let mut total = 0;
    for _ in 1..weights.len() {
        let mut smallest = || match (weights.get(leaf), inner.get(node)) {
            (Some(&a), b) if b.is_none_or(|&b| a <= b) => {
                leaf += 1;
                a
            }
            (_, Some(&b)) => {
                node += 1;
                b
            }
            _ => 0,
        };
        let sum = smallest() + smallest();
        inner.push(sum);
        total += sum;
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_known_distributions() {
        assert_eq!(code_bits(&mut []), 0);
        assert_eq!(code_bits(&mut [9]), 9);
        assert_eq!(code_bits(&mut [5, 5]), 10);
        // a b r c d of "abracadabra": 1, 3, 3, 3 and 3 bits.
        assert_eq!(code_bits(&mut [5, 2, 2, 1, 1]), 23);
        assert_eq!(code_bits(&mut [16; 256]), 8 * 16 * 256);
        assert_eq!(code_bits(&mut [8, 4, 2, 1, 1]), 8 + 8 + 6 + 4 + 4);
    }

    #[test]
    fn noise_does_not_shrink() {
        let all: Vec<u8> = (0..=255).cycle().take(1 << 16).collect();
        assert!((huffman_bytes(&all) - 65536.0).abs() < 1e-9);
    }
}
