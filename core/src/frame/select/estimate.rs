//! Estimates the coded size of a plane from a sample. The sizes of Huffman codes
//! and rANS are computed from counts; the size after a match search is measured by
//! a trial.

use alloc::vec::Vec;

use super::Effort;
use crate::engine::{PackEngine, ZstdCoding};
use crate::entropy::histogram::{self, count, entropy_bits};
use crate::entropy::rans::{CHUNK_BYTES, order1_bytes, rans_bytes};
use crate::entropy::zstd::cost::huffman_bytes;

/// Codes count as short if the Huffman size is below this fraction of the plane, a
/// little over two bits per byte. [`Effort::Balanced`] estimates rANS of order 1
/// for such planes, and otherwise only under further conditions.
const SHORT_CODE_SHARE: f64 = 0.3;

/// Above this number of distinct bytes, [`Effort::Balanced`] does not estimate rANS
/// of order 1 for planes with long codes. Ordinary weights have all mantissas.
/// Quantised weights have few, and neighbouring elements that share a scale have
/// related ones.
const ORDER1_MAX_VALUES: usize = 64;

/// [`Effort::Balanced`] estimates rANS of order 1 on a plane with long codes that does
/// not hold mantissas only if bytes equal their predecessors more than this many times as
/// often as by chance.
const NEIGHBOUR_RATIO: f64 = 1.5;

/// The gain that rANS of order 1 must have over the best other codec if codes are long,
/// as a fraction of that codec's size.
const ORDER1_MIN_GAIN: f64 = 0.03;

/// [`Effort::Max`] tries a search if pieces of this many bytes have a total entropy below
/// [`UNEVEN_SHARE`] of the sample's. In random data, the pieces still have 0.97 of it,
/// because they are short.
const EVEN_PIECE_BYTES: usize = 1 << 10;
const UNEVEN_SHARE: f64 = 0.93;

/// The number of pieces of a sample on which a search is tried.
const PIECES: usize = 4;

/// The estimate is repeated on a full sample if the size after a search is below this
/// fraction of the Huffman size.
const SEARCH_NEAR: f64 = 0.995;
/// If codes are short, the estimate is repeated on a full sample if the size with rANS is
/// below this fraction of the Huffman size.
const RANS_NEAR: f64 = 0.97;

/// Sizes of a sample, in bytes, before and after coding.
#[derive(Debug, Clone, Copy)]
pub struct PlaneEstimate {
    /// Size before coding.
    pub len: f64,
    /// Size with Huffman codes; at most `len`.
    pub huffman: f64,
    /// Size after a match search; may exceed `huffman` and `len`.
    pub search: f64,
    /// Size with rANS of order 0 and a table per chunk.
    pub rans: f64,
    /// Size with rANS of order 1; infinite if it was not estimated.
    pub order1: f64,
}

/// The parameters for evaluating a sample.
#[derive(Debug, Clone, Copy)]
pub struct SampleSpec {
    /// The effort of the encoder.
    pub effort: Effort,
    /// Length of the plane divided by the length of the sample.
    pub scale: f64,
    /// Length in bytes of each piece on which a search is tried.
    pub piece_bytes: usize,
    /// True if a search is tried in any case. If not, it is tried only where codes
    /// are short or, for [`Effort::Max`], statistics are uneven.
    pub repeats: bool,
    /// True if the sample consists of whole mantissas.
    pub mantissas: bool,
    /// True if the sample is from one of several parts of the plane, which are
    /// estimated separately.
    pub is_part: bool,
}

impl PlaneEstimate {
    /// Estimates the sizes of a sample of a plane or of a part of one. A search is
    /// tried on `trial`, or on pieces of the sample if it is `None`.
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

    /// Returns whether Huffman codes are clearly the right codec: a search gains nothing,
    /// and rANS gains too little.
    pub fn is_plain(&self, effort: Effort) -> bool {
        let is_long = effort == Effort::Fast || self.huffman >= self.len * SHORT_CODE_SHARE;
        let rans = self.rans.min(self.order1);
        !self.is_search_near()
            && !self.is_order1_ahead()
            && (is_long || rans >= self.huffman * RANS_NEAR)
    }

    /// Returns whether rANS of order 1 gives clearly the smallest size, by enough
    /// to justify its slow decoding even if codes are long.
    pub(crate) fn is_order1_ahead(&self) -> bool {
        let others = self.huffman.min(self.search).min(self.rans);
        self.order1 < others * (1.0 - ORDER1_MIN_GAIN)
    }

    /// Returns whether a search appears to gain over Huffman codes, if only slightly.
    pub(crate) fn is_search_near(&self) -> bool {
        self.search < self.huffman * SEARCH_NEAR
    }

    /// Returns the smallest of all sizes, including `len`.
    pub fn smallest(&self) -> f64 {
        let coded = self.huffman.min(self.search).min(self.rans);
        coded.min(self.order1).min(self.len)
    }
}

/// Expected sizes of a stream in bytes, encoded as a zstd frame.
#[derive(Debug, Clone, Copy)]
pub struct ZstdEstimate {
    /// Size with Huffman codes.
    pub huffman: f64,
    /// Size after a match search.
    pub search: f64,
}

impl ZstdEstimate {
    /// Estimates the sizes of a stream from a sample. If `spec.repeats`, a search
    /// is tried on the whole sample, otherwise on pieces.
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

/// Returns evenly spaced pieces of a sample that is too long for a slow trial.
fn pieces(plane: &[u8], piece_bytes: usize) -> Vec<u8> {
    if plane.len() <= PIECES * piece_bytes {
        return plane.to_vec();
    }
    let step = (plane.len() - piece_bytes) / (PIECES - 1);
    let parts: [&[u8]; PIECES] = core::array::from_fn(|k| &plane[k * step..k * step + piece_bytes]);
    parts.concat()
}

/// Encodes some pieces of a sample with a search, and returns their size divided by their
/// Huffman size.
fn search_share<E: PackEngine>(engine: &E, sample: &[u8], spec: SampleSpec) -> f64 {
    let pieces = pieces(sample, spec.piece_bytes);
    trial_share(engine, &pieces, spec.effort.trial_level())
}

/// Returns the size of `bytes` after a search at `level` divided by their Huffman
/// size.
fn trial_share<E: PackEngine>(engine: &E, bytes: &[u8], level: i32) -> f64 {
    let mut trial = Vec::new();
    engine.zstd_encode(bytes, ZstdCoding::Search(level), &mut trial);
    let huffman = huffman_bytes(&count(bytes), bytes.len() as f64, 1.0);
    trial.len() as f64 / huffman.max(1.0)
}

/// Returns whether short pieces have clearly less entropy than the whole sample,
/// as in matrices whose rows have different scales.
fn is_uneven(sample: &[u8], counts: &[u64; 256]) -> bool {
    let pieces = sample.chunks(EVEN_PIECE_BYTES);
    let bits: f64 = pieces.map(|piece| entropy_bits(&count(piece))).sum();
    bits < entropy_bits(counts) * UNEVEN_SHARE
}

/// Returns whether bytes equal their predecessors clearly more often than by
/// chance.
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
