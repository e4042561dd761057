//! Estimates the coded size of a plane from a sample of it: Huffman codes and
//! rANS by arithmetic, a search for matches by trial.

use alloc::vec;
use alloc::vec::Vec;

use super::Effort;
use crate::engine::{PackEngine, ZstdCoding};
use crate::entropy::histogram::{self, count, entropy_bits, huffman_bits};

/// Average bytes of the headers of a block of 128 KiB, and of the description of
/// its code for each symbol that occurs.
const BLOCK_HEADS_BYTES: f64 = 30.0;
const CODE_SYMBOL_BYTES: f64 = 0.5;
/// Bytes of a block that repeats a single byte.
const RUN_BLOCK_BYTES: f64 = 8.0;
const BLOCK_BYTES: f64 = 131_072.0;

/// Average bytes of the head of a rANS chunk, and of its table for each symbol
/// that occurs.
const CHUNK_HEAD_BYTES: f64 = 20.0;
const TABLE_SYMBOL_BYTES: f64 = 1.5;

/// The Huffman size, as a share of the plane, below which codes count as short:
/// a little over two bits per byte. Only there does [`Effort::Balanced`]
/// estimate rANS of order 1.
const SHORT_CODE_SHARE: f64 = 0.3;

/// The number of pieces on which a search is tried.
const PIECES: usize = 4;

/// A search whose size is below this share of the Huffman size is close enough
/// to be measured on a full sample.
const SEARCH_NEAR: f64 = 0.995;
/// For short codes, rANS whose size is below this share of the Huffman size is
/// measured on a full sample.
const RANS_NEAR: f64 = 0.97;

/// Sizes of a sample, in bytes, before and after coding.
#[derive(Debug, Clone, Copy)]
pub struct Estimate {
    /// Size before coding.
    pub len: f64,
    /// Size in Huffman codes; at most `len`.
    pub huffman: f64,
    /// Size after a search for matches; may exceed `huffman` and `len`.
    pub search: f64,
    /// Size in rANS of order 0 with a table per chunk.
    pub rans: f64,
    /// Size in rANS of order 1; infinite where the effort does not use it.
    pub order1: f64,
}

/// How a sample is evaluated.
#[derive(Debug, Clone, Copy)]
pub struct SampleSpec {
    /// The effort of the encoder.
    pub effort: Effort,
    /// Length of the plane divided by that of the sample.
    pub scale: f64,
    /// Bytes of each piece on which a search is tried.
    pub piece_bytes: usize,
    /// Whether bytes are known to repeat. If not, a search is tried only where
    /// codes are short.
    pub repeats: bool,
}

impl Estimate {
    /// Estimates the sizes of a sample of a plane, or of a part of one.
    pub fn of<E: PackEngine>(engine: &E, sample: &[u8], spec: SampleSpec) -> Self {
        let SampleSpec { effort, scale, .. } = spec;
        let len = sample.len() as f64;
        let chunks: Vec<[u64; 256]> = sample.chunks(CHUNK_BYTES).map(count).collect();
        let counts = histogram::sum(&chunks);
        let huffman = huffman_bytes(&counts, len, scale);
        let is_short = huffman < len * SHORT_CODE_SHARE;
        let search = match spec.repeats || is_short {
            true => huffman * search_share(engine, sample, spec),
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

    /// Returns whether Huffman codes are clearly the codec to use: a search does
    /// not come close, nor are codes so short that rANS competes.
    pub fn is_plain(&self, effort: Effort) -> bool {
        let is_long = effort == Effort::Fast || self.huffman >= self.len * SHORT_CODE_SHARE;
        let rans = self.rans.min(self.order1);
        !self.is_search_near() && (is_long || rans >= self.huffman * RANS_NEAR)
    }

    /// Returns whether a search comes close to Huffman codes.
    pub fn is_search_near(&self) -> bool {
        self.search < self.huffman * SEARCH_NEAR
    }

    /// Returns the smallest of all sizes.
    pub fn smallest(&self) -> f64 {
        let coded = self.huffman.min(self.search).min(self.rans);
        coded.min(self.order1).min(self.len)
    }
}

/// Expected sizes of a stream as a zstd frame, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct ZstdEstimate {
    /// Size in Huffman codes.
    pub huffman: f64,
    /// Size after a search for matches.
    pub search: f64,
}

impl ZstdEstimate {
    /// Estimates the sizes of a stream from a sample of it.
    pub fn of<E: PackEngine>(engine: &E, sample: &[u8], spec: SampleSpec) -> Self {
        let huffman = huffman_bytes(&count(sample), sample.len() as f64, spec.scale);
        Self {
            huffman: huffman * spec.scale,
            search: huffman * search_share(engine, sample, spec) * spec.scale,
        }
    }
}

const CHUNK_BYTES: usize = 1 << 16;

/// Returns evenly spread parts of a sample that is too long for a slow trial.
fn pieces(plane: &[u8], piece_bytes: usize) -> Vec<u8> {
    if plane.len() <= PIECES * piece_bytes {
        return plane.to_vec();
    }
    let step = (plane.len() - piece_bytes) / (PIECES - 1);
    let parts: [&[u8]; PIECES] = core::array::from_fn(|k| &plane[k * step..k * step + piece_bytes]);
    parts.concat()
}

/// Returns the size after a search on some pieces, divided by their Huffman
/// size.
fn search_share<E: PackEngine>(engine: &E, sample: &[u8], spec: SampleSpec) -> f64 {
    let pieces = pieces(sample, spec.piece_bytes);
    let mut trial = Vec::new();
    let coding = ZstdCoding::Search(spec.effort.trial_level());
    engine.zstd_encode(&pieces, coding, &mut trial);
    let huffman = huffman_bytes(&count(&pieces), pieces.len() as f64, 1.0);
    trial.len() as f64 / huffman.max(1.0)
}

/// Returns the size of `len` bytes with these counts in an optimal Huffman code,
/// including their share of the block headers of a plane `scale` times as long;
/// at most `len`.
fn huffman_bytes(counts: &[u64; 256], len: f64, scale: f64) -> f64 {
    let values = histogram::values(counts);
    let blocks = (len * scale / BLOCK_BYTES).max(1.0) / scale;
    if values < 2 {
        return (blocks * RUN_BLOCK_BYTES).min(len);
    }
    // A code fits the sample it was made from better than the plane, by half a
    // nat (0.72 bits) for each free value.
    let chance = (values - 1) as f64 * 0.72 * (1.0 - 1.0 / scale);
    let bits = huffman_bits(counts) as f64 + chance;
    let heads = BLOCK_HEADS_BYTES + values as f64 * CODE_SYMBOL_BYTES;
    (bits / 8.0 + blocks * heads).min(len)
}

/// Returns the entropy of bytes with these counts, in bytes, including their
/// share of the heads and tables of chunks in a plane `scale` times as long.
fn rans_bytes(chunks: &[[u64; 256]], scale: f64) -> f64 {
    let bytes = chunks.iter().map(|counts| {
        let head = CHUNK_HEAD_BYTES + histogram::values(counts) as f64 * TABLE_SYMBOL_BYTES;
        let len = counts.iter().sum::<u64>().max(1) as f64;
        let shares = (CHUNK_BYTES as f64 / len).clamp(1.0, scale);
        entropy_bits(counts) / 8.0 + head / shares
    });
    bytes.sum()
}

/// Returns the entropy of the bytes given the byte before each, in bytes,
/// including the table of all pairs that occur, which is written once for the
/// whole plane.
fn order1_bytes(bytes: &[u8], counts: &[u64; 256], scale: f64) -> f64 {
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
    use super::*;

    #[test]
    fn noise_does_not_shrink() {
        let all: Vec<u8> = (0..=255).cycle().take(1 << 16).collect();
        let counts = count(&all);
        assert!((huffman_bytes(&counts, 65536.0, 1.0) - 65536.0).abs() < 1e-9);
        assert!(rans_bytes(&[counts], 1.0) > 65536.0);
    }

    #[test]
    fn bytes_determined_by_the_byte_before_are_free() {
        let pairs: Vec<u8> = [1, 2].into_iter().cycle().take(1000).collect();
        assert!(order1_bytes(&pairs, &count(&pairs), 1.0) < 8.0);
    }
}
