//! Estimates the coded size of a plane from a sample of it: Huffman codes and
//! rANS by arithmetic, a search for matches by trial.

use alloc::vec::Vec;

use super::Effort;
use crate::engine::{PackEngine, ZstdCoding};
use crate::entropy::histogram::{self, count, entropy_bits};
use crate::entropy::rans::cost::{CHUNK_BYTES, order1_bytes, rans_bytes};
use crate::entropy::zstd::cost::huffman_bytes;

/// The Huffman size, as a share of the plane, below which codes count as short:
/// a little over two bits per byte. Only there does [`Effort::Balanced`]
/// estimate rANS of order 1.
const SHORT_CODE_SHARE: f64 = 0.3;

/// The most distinct bytes of a plane for which [`Effort::Balanced`] estimates
/// rANS of order 1 where codes are long. Weights have all mantissas; those of a
/// grid have few, which depend on their neighbours if these share a scale.
const ORDER1_MAX_VALUES: usize = 64;

/// How much more often than by chance a byte has to equal the one before for
/// [`Effort::Balanced`] to estimate rANS of order 1 on a plane of long codes
/// that are not mantissas.
const NEIGHBOUR_RATIO: f64 = 1.5;

/// What rANS of order 1 has to gain on the other codecs where codes are long.
const ORDER1_MIN_GAIN: f64 = 0.03;

/// [`Effort::Max`] tries a search where pieces of this many bytes have less than
/// this share of the sample's entropy: chance alone leaves them 0.97.
const EVEN_PIECE_BYTES: usize = 1 << 10;
const UNEVEN_SHARE: f64 = 0.93;

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
    /// Whether the sample is one of whole mantissas.
    pub mantissas: bool,
    /// Whether the plane has parts, which are estimated one by one.
    pub is_part: bool,
}

impl Estimate {
    /// Estimates the sizes of a sample of a plane, or of a part of one. A search
    /// is tried on `trial`, or on pieces of the sample if there is none.
    pub fn of<E: PackEngine>(
        engine: &E,
        sample: &[u8],
        trial: Option<&[u8]>,
        spec: SampleSpec,
    ) -> Self {
        let SampleSpec { effort, scale, .. } = spec;
        let len = sample.len() as f64;
        let chunks: Vec<[u64; 256]> = sample.chunks(CHUNK_BYTES).map(count).collect();
        let counts = histogram::sum(&chunks);
        let huffman = huffman_bytes(&counts, len, scale);
        let is_short = huffman < len * SHORT_CODE_SHARE;
        let depends = || {
            let is_known = spec.mantissas || neighbours_agree(sample, &counts);
            !spec.is_part && histogram::values(&counts) <= ORDER1_MAX_VALUES && is_known
        };
        let is_uneven = || effort == Effort::Max && is_uneven(sample, &counts);
        let search = match trial {
            Some(trial) => huffman * trial_share(engine, trial, effort.search_trial_level()),
            None if spec.repeats || is_short || is_uneven() => {
                huffman * search_share(engine, sample, spec)
            }
            None => huffman,
        };
        Self {
            len,
            huffman,
            search,
            rans: rans_bytes(&chunks, scale),
            order1: match effort {
                Effort::Max => order1_bytes(sample, &counts, scale),
                Effort::Balanced if is_short || depends() => order1_bytes(sample, &counts, scale),
                Effort::Fast | Effort::Balanced => f64::INFINITY,
            },
        }
    }

    /// Returns whether Huffman codes are clearly the codec to use: a search does
    /// not come close, nor are codes so short that rANS competes.
    pub fn is_plain(&self, effort: Effort) -> bool {
        let is_long = effort == Effort::Fast || self.huffman >= self.len * SHORT_CODE_SHARE;
        let rans = self.rans.min(self.order1);
        !self.is_search_near()
            && !self.is_order1_ahead()
            && (is_long || rans >= self.huffman * RANS_NEAR)
    }

    /// Returns whether rANS of order 1 is clearly the smallest, enough to be worth
    /// its slow decoding where codes are long.
    pub fn is_order1_ahead(&self) -> bool {
        let others = self.huffman.min(self.search).min(self.rans);
        self.order1 < others * (1.0 - ORDER1_MIN_GAIN)
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
    /// Estimates the sizes of a stream from a sample of it. A search is tried on
    /// all of the sample if it repeats, and otherwise on pieces.
    pub fn of<E: PackEngine>(engine: &E, sample: &[u8], spec: SampleSpec) -> Self {
        let huffman = huffman_bytes(&count(sample), sample.len() as f64, spec.scale);
        let share = match spec.repeats {
            true => trial_share(engine, sample, spec.effort.search_trial_level()),
            false => search_share(engine, sample, spec),
        };
        Self {
            huffman: huffman * spec.scale,
            search: huffman * share * spec.scale,
        }
    }
}

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
    trial_share(engine, &pieces, spec.effort.trial_level())
}

/// Returns the size of `bytes` after a search at `level`, divided by their
/// Huffman size.
fn trial_share<E: PackEngine>(engine: &E, bytes: &[u8], level: i32) -> f64 {
    let mut trial = Vec::new();
    engine.zstd_encode(bytes, ZstdCoding::Search(level), &mut trial);
    let huffman = huffman_bytes(&count(bytes), bytes.len() as f64, 1.0);
    trial.len() as f64 / huffman.max(1.0)
}

/// Returns whether neighbouring bytes are clearly fewer than all of them, as those
/// of rows that have a scale each.
fn is_uneven(sample: &[u8], counts: &[u64; 256]) -> bool {
    let pieces = sample.chunks(EVEN_PIECE_BYTES);
    let bits: f64 = pieces.map(|piece| entropy_bits(&count(piece))).sum();
    bits < entropy_bits(counts) * UNEVEN_SHARE
}

/// Returns whether bytes equal their neighbours clearly more often than chance
/// would have it.
fn neighbours_agree(bytes: &[u8], counts: &[u64; 256]) -> bool {
    let pairs = bytes.iter().zip(bytes.iter().skip(1));
    let equal = pairs.filter(|(a, b)| a == b).count() as f64;
    let len = bytes.len().max(1) as f64;
    let by_chance: f64 = counts
        .iter()
        .map(|&count| count as f64 * count as f64)
        .sum();
    equal > by_chance / len * NEIGHBOUR_RATIO
}
