//! What coding a plane would come to, judged on a sample of it: Huffman codes
//! and rANS by arithmetic, a search by trial.

use alloc::vec;
use alloc::vec::Vec;

use super::Effort;
use crate::engine::{PackEngine, ZstdCoding};
use crate::entropy::order0::{self, count, entropy_bits, huffman_bits};

/// Bytes of the headers of a block of 128 KiB, and of the description of its
/// code for every symbol that occurs.
const BLOCK_HEADS_BYTES: f64 = 30.0;
const CODE_SYMBOL_BYTES: f64 = 0.5;
/// Those of a block that is one byte again and again.
const RUN_BLOCK_BYTES: f64 = 8.0;
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
/// And rANS that comes this far below.
const RANS_NEAR: f64 = 0.97;

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

/// How a sample is judged.
#[derive(Debug, Clone, Copy)]
pub struct Judge {
    /// What for.
    pub effort: Effort,
    /// How many times as long the plane is.
    pub scale: f64,
    /// A search is tried on a few pieces, of so many bytes each.
    pub piece_bytes: usize,
    /// Whether bytes are known to occur again and again. If not, a search is
    /// tried only where codes are short.
    pub repeats: bool,
}

impl Estimate {
    /// Of a sample of a plane, or of a part of it.
    pub fn of<E: PackEngine>(engine: &E, sample: &[u8], judge: Judge) -> Self {
        let Judge { effort, scale, .. } = judge;
        let len = sample.len() as f64;
        let chunks: Vec<[u64; 256]> = sample.chunks(CHUNK_BYTES).map(count).collect();
        let counts = order0::sum(&chunks);
        let huffman = huffman_bytes(&counts, len, scale);
        let is_short = huffman < len * CONTEXT_SHARE;
        let search = match judge.repeats || is_short {
            true => huffman * search_share(engine, sample, judge),
            false => huffman,
        };
        Self {
            len,
            huffman,
            search,
            rans: rans_bytes(&chunks, scale),
            order1: match effort {
                Effort::Max => order1_bytes(sample, &counts, scale),
                Effort::Balanced if is_short => order1_bytes(sample, &counts, scale),
                Effort::Fast | Effort::Balanced => f64::INFINITY,
            },
        }
    }

    /// Whether codes of single bytes are all there is to it: no search is
    /// near, nor are codes so short that other ways compete.
    pub fn is_plain(&self, effort: Effort) -> bool {
        let is_long = effort == Effort::Fast || self.huffman >= self.len * CONTEXT_SHARE;
        let rans = self.rans.min(self.order1);
        !self.is_search_near() && (is_long || rans >= self.huffman * RANS_NEAR)
    }

    /// Whether a search comes close to codes of single bytes.
    pub fn is_search_near(&self) -> bool {
        self.search < self.huffman * NEAR
    }

    /// The least of all.
    pub fn least(&self) -> f64 {
        let coded = self.huffman.min(self.search).min(self.rans);
        coded.min(self.order1).min(self.len)
    }
}

/// What two ways to make zstd frames of a stream are expected to come to, in
/// bytes.
#[derive(Debug, Clone, Copy)]
pub struct ZstdEstimate {
    /// In Huffman codes.
    pub huffman: f64,
    /// Found by a search.
    pub search: f64,
}

impl ZstdEstimate {
    /// Of a sample of it.
    pub fn of<E: PackEngine>(engine: &E, sample: &[u8], judge: Judge) -> Self {
        let huffman = huffman_bytes(&count(sample), sample.len() as f64, judge.scale);
        Self {
            huffman: huffman * judge.scale,
            search: huffman * search_share(engine, sample, judge) * judge.scale,
        }
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

/// How a search does on some pieces, against Huffman codes.
fn search_share<E: PackEngine>(engine: &E, sample: &[u8], judge: Judge) -> f64 {
    let pieces = pieces(sample, judge.piece_bytes);
    let mut trial = Vec::new();
    let coding = ZstdCoding::Search(judge.effort.trial_level());
    engine.zstd_encode(&pieces, coding, &mut trial);
    let huffman = huffman_bytes(&count(&pieces), pieces.len() as f64, 1.0);
    trial.len() as f64 / huffman.max(1.0)
}

/// Size of `len` bytes with these counts in an optimal Huffman code, with
/// their share of the heads of blocks in a plane `scale` times as long; never
/// more than the bytes themselves.
fn huffman_bytes(counts: &[u64; 256], len: f64, scale: f64) -> f64 {
    let values = order0::values(counts);
    let blocks = (len * scale / BLOCK_BYTES).max(1.0) / scale;
    if values < 2 {
        return (blocks * RUN_BLOCK_BYTES).min(len);
    }
    // A code fits the sample it was made of better than the plane: by half a
    // nat for each free value.
    let chance = (values - 1) as f64 * 0.72 * (1.0 - 1.0 / scale);
    let bits = huffman_bits(counts) as f64 + chance;
    let heads = BLOCK_HEADS_BYTES + values as f64 * CODE_SYMBOL_BYTES;
    (bits / 8.0 + blocks * heads).min(len)
}

/// Bytes with these counts at their entropy, with their share of the heads and
/// tables of chunks in a plane `scale` times as long.
fn rans_bytes(chunks: &[[u64; 256]], scale: f64) -> f64 {
    let bytes = chunks.iter().map(|counts| {
        let head = CHUNK_HEAD_BYTES + order0::values(counts) as f64 * TABLE_SYMBOL_BYTES;
        let len = counts.iter().sum::<u64>().max(1) as f64;
        let shares = (CHUNK_BYTES as f64 / len).clamp(1.0, scale);
        entropy_bits(counts) / 8.0 + head / shares
    });
    bytes.sum()
}

/// The bytes at their entropy given the byte before, with the table of all
/// pairs that occur, which is written once for the whole plane.
fn order1_bytes(bytes: &[u8], counts: &[u64; 256], scale: f64) -> f64 {
    // Rows and columns of values that occur, numbered; the first byte stands
    // behind a zero.
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
    bits / 8.0 + order0::values(&pairs) as f64 * TABLE_SYMBOL_BYTES / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_does_not_shrink() {
        let all: Vec<u8> = (0..=255).cycle().take(1 << 16).collect();
        let counts = count(&all);
        assert!((huffman_bytes(&counts, 65536.0, 1.0) - 65536.0).abs() < 1e-9);
        assert!(rans_bytes(&[counts], 1.0) > 65536.0);
    }

    #[test]
    fn what_follows_from_the_byte_before_is_free() {
        // Every byte follows from the one before it.
        let pairs: Vec<u8> = [1, 2].into_iter().cycle().take(1000).collect();
        assert!(order1_bytes(&pairs, &count(&pairs), 1.0) < 8.0);
    }
}
