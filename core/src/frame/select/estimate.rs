//! What coding a plane would come to, judged on a sample of it: Huffman codes
//! and rANS by arithmetic, a search by trial.

use alloc::vec;
use alloc::vec::Vec;

use super::Effort;
use crate::engine::{PackEngine, ZstdCoding};
use crate::entropy::order0::entropy_bits;

/// Bytes of a Huffman table and of the headers of a block of 128 KiB.
const BLOCK_HEADS_BYTES: f64 = 110.0;
const BLOCK_BYTES: f64 = 131_072.0;

/// Bytes of the head of a rANS chunk, and of its table for every symbol that
/// occurs.
const CHUNK_HEAD_BYTES: f64 = 20.0;
const TABLE_SYMBOL_BYTES: f64 = 1.5;

/// Codes of under about two bits: where contexts are looked at by default.
const CONTEXT_SHARE: f64 = 0.3;

const PIECES: usize = 4;

/// A search that comes this close to Huffman codes on a short look deserves a
/// longer one.
const NEAR: f64 = 0.995;

/// Sizes of a sample, in bytes, as it is and coded.
#[derive(Debug, Clone, Copy)]
pub struct Estimate {
    /// As it is.
    pub len: f64,
    /// In Huffman codes; never more than as it is.
    pub huffman: f64,
    /// Found by a search; may be more.
    pub search: f64,
    /// In rANS of order 0, a table per chunk.
    pub rans: f64,
    /// In rANS of order 1, where the effort has a use for it.
    pub order1: f64,
}

impl Estimate {
    /// Of a sample of a plane, or of a part of it, that is `scale` times as
    /// long. A search is tried on a few pieces of it, of so many bytes each.
    pub fn of<E: PackEngine>(
        engine: &E,
        sample: &[u8],
        scale: f64,
        piece_bytes: usize,
        effort: Effort,
    ) -> Self {
        let len = sample.len() as f64;
        let huffman = huffman_bytes(sample, scale);
        let pieces = pieces(sample, piece_bytes);
        let mut trial = Vec::new();
        let coding = ZstdCoding::Search(effort.trial_level());
        engine.zstd_encode(&pieces, coding, &mut trial);
        // How the search does on the same pieces, against Huffman codes.
        let share = trial.len() as f64 / huffman_bytes(&pieces, 1.0).max(1.0);
        Self {
            len,
            huffman,
            search: huffman * share,
            rans: rans_bytes(sample, scale),
            order1: match effort {
                Effort::Max => order1_bytes(sample, scale),
                Effort::Balanced if huffman < len * CONTEXT_SHARE => order1_bytes(sample, scale),
                Effort::Fast | Effort::Balanced => f64::INFINITY,
            },
        }
    }

    /// Whether codes of single bytes are all there is to it: no search is
    /// near, nor are codes so short that other ways compete.
    pub fn is_plain(&self, effort: Effort) -> bool {
        let is_long = effort == Effort::Fast || self.huffman >= self.len * CONTEXT_SHARE;
        is_long && self.search >= self.huffman * NEAR
    }

    /// The least of all.
    pub fn least(&self) -> f64 {
        let coded = self.huffman.min(self.search).min(self.rans);
        coded.min(self.order1).min(self.len)
    }
}

const CHUNK_BYTES: usize = 1 << 16;

/// Evenly spread parts of a sample, which is too long for a slow trial.
fn pieces(plane: &[u8], piece_bytes: usize) -> Vec<u8> {
    if plane.len() <= PIECES * piece_bytes {
        return plane.to_vec();
    }
    let step = (plane.len() - piece_bytes) / (PIECES - 1);
    let parts: [&[u8]; PIECES] = core::array::from_fn(|k| &plane[k * step..k * step + piece_bytes]);
    parts.concat()
}

fn counts(bytes: &[u8]) -> Vec<u64> {
    // Four tables, so that runs of one value do not wait for each other.
    let mut tables = [[0u32; 256]; 4];
    let (groups, rest) = bytes.as_chunks::<4>();
    for group in groups {
        for (table, &byte) in tables.iter_mut().zip(group) {
            table[usize::from(byte)] += 1;
        }
    }
    for &byte in rest {
        tables[0][usize::from(byte)] += 1;
    }
    (0..256)
        .map(|value| tables.iter().map(|table| u64::from(table[value])).sum())
        .filter(|&count| count > 0)
        .collect()
}

/// Size of the bytes in an optimal Huffman code, with their share of the heads
/// of blocks in a plane `scale` times as long; never more than the bytes
/// themselves.
fn huffman_bytes(bytes: &[u8], scale: f64) -> f64 {
    let len = bytes.len() as f64;
    let blocks = (len * scale / BLOCK_BYTES).max(1.0) / scale;
    (code_bits(&mut counts(bytes)) as f64 / 8.0 + blocks * BLOCK_HEADS_BYTES).min(len)
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

/// The bytes at their entropy, with their share of the heads and tables of
/// chunks in a plane `scale` times as long.
fn rans_bytes(bytes: &[u8], scale: f64) -> f64 {
    bytes
        .chunks(CHUNK_BYTES)
        .map(|chunk| {
            let counts = counts(chunk);
            let head = CHUNK_HEAD_BYTES + counts.len() as f64 * TABLE_SYMBOL_BYTES;
            let shares = (CHUNK_BYTES as f64 / chunk.len() as f64).clamp(1.0, scale);
            entropy_bits(&counts) / 8.0 + head / shares
        })
        .sum()
}

/// The bytes at their entropy given the byte before, with the table of all
/// pairs that occur, which is written once for the whole plane.
fn order1_bytes(bytes: &[u8], scale: f64) -> f64 {
    let mut rows = vec![[0u64; 256]; 256];
    let mut context = 0;
    for &byte in bytes {
        rows[usize::from(context)][usize::from(byte)] += 1;
        context = byte;
    }
    let (mut bits, mut pairs) = (0.0, 0);
    for row in &rows {
        let row: Vec<u64> = row.iter().copied().filter(|&count| count > 0).collect();
        bits += entropy_bits(&row);
        pairs += row.len();
    }
    bits / 8.0 + pairs as f64 * TABLE_SYMBOL_BYTES / scale
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
        assert!((huffman_bytes(&all, 1.0) - 65536.0).abs() < 1e-9);
        assert!(rans_bytes(&all, 1.0) > 65536.0);
    }

    #[test]
    fn what_follows_from_the_byte_before_is_free() {
        // Every byte follows from the one before it.
        let pairs: Vec<u8> = [1, 2].into_iter().cycle().take(1000).collect();
        assert!(order1_bytes(&pairs, 1.0) < 8.0);
    }
}
