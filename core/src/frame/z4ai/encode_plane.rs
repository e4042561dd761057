//! Encodes a plane into its payload with the codecs that a recipe names.

use alloc::vec::Vec;

use super::recipe::{BlockCodecs, Codec};
use crate::engine::{PackEngine, ZstdCoding};
use crate::entropy::histogram::{count, sum};
use crate::entropy::rans::cost::CHUNK_BYTES;
use crate::entropy::zstd::cost::huffman_block_bytes;
use crate::entropy::{blocks, rans};
use crate::frame::plane::Method;

impl BlockCodecs {
    /// Returns the smallest zstd frame of `raw`.
    pub(super) fn encode<E: PackEngine>(self, engine: &E, raw: &[u8]) -> Vec<u8> {
        let coded = |coding| {
            let mut frame = Vec::new();
            engine.zstd_encode(raw, coding, &mut frame);
            frame
        };
        let huffman = self.huffman.then(|| coded(ZstdCoding::Huffman));
        let outlier_bytes = raw.len() / 256 * usize::from(self.search_outliers_below);
        let search = match &huffman {
            Some(frame) if frame.len() < outlier_bytes => Some(OUTLIER_CODING),
            _ => self.search,
        };
        let frames = huffman.into_iter().chain(search.map(coded));
        // The first among equals: Huffman codes decode faster.
        frames.min_by_key(Vec::len).unwrap_or_default()
    }
}

/// The search for blocks that compress far better than the rest of their plane.
const OUTLIER_CODING: ZstdCoding = ZstdCoding::Search(3);

impl Codec {
    fn is_zstd(self) -> bool {
        matches!(self, Self::Blocks(_) | Self::Zstd(_))
    }

    /// Returns the length of the payload that [`Self::encode`] makes, to about one
    /// part in a thousand, for codecs whose result follows from byte counts.
    fn expected_len_bytes<E: PackEngine>(self, engine: &E, plane: &[u8]) -> Option<usize> {
        match self {
            Self::Rans => Some(rans::shared_len_bytes(&count(plane))),
            Self::RansAdaptive(chunk_bytes) => {
                let counts = rans::chunk_counts(engine, plane, chunk_bytes as usize);
                Some(rans::adaptive_len_bytes(&counts))
            }
            Self::Blocks(_) | Self::Zstd(_) | Self::RansOrder1 => None,
        }
    }

    /// Encodes `plane`, which consists of `parts` parts of equal length, and
    /// returns its method and payload, or `None` if the plane is too long for
    /// this codec.
    pub(super) fn encode<E: PackEngine>(
        self,
        engine: &E,
        plane: &[u8],
        parts: usize,
    ) -> Option<(Method, Vec<u8>)> {
        Some(match self {
            Self::Blocks(codecs) => {
                let block_bytes = codecs.block_bytes(parts, plane.len() / parts);
                let blocks: Vec<&[u8]> = plane.chunks(block_bytes as usize).collect();
                let coded = engine.map(blocks, |block| codecs.encode(engine, block));
                payload(coded, block_bytes)
            }
            Self::Zstd(coding) => {
                let mut frame = Vec::new();
                engine.zstd_encode(plane, coding, &mut frame);
                (Method::Zstd, frame)
            }
            Self::Rans => (Method::Rans, rans::encode_shared(engine, plane)),
            Self::RansAdaptive(chunk_bytes) => (
                Method::RansAdaptive,
                rans::encode_adaptive(engine, plane, chunk_bytes as usize),
            ),
            Self::RansOrder1 if plane.len() as u64 <= rans::ORDER1_MAX_SYMBOLS => {
                (Method::RansOrder1, rans::encode_order1(engine, plane))
            }
            Self::RansOrder1 => return None,
        })
    }
}

/// Joins coded blocks to the payload of a plane. A single block needs no table.
pub(super) fn payload(coded: Vec<Vec<u8>>, block_bytes: u32) -> (Method, Vec<u8>) {
    match <[Vec<u8>; 1]>::try_from(coded) {
        Ok([only]) => (Method::Zstd, only),
        Err(coded) => {
            let mut out = blocks::table_of(block_bytes, &coded);
            for block in &coded {
                out.extend_from_slice(block);
            }
            (Method::Blocks, out)
        }
    }
}

/// Returns the smallest result of `codecs`, or the plane itself if none gains.
pub(super) fn smallest<E: PackEngine>(
    engine: &E,
    plane: Vec<u8>,
    parts: usize,
    codecs: &[Codec],
) -> (Method, Vec<u8>) {
    let coded = try_all(engine, &plane, parts, codecs.to_vec());
    shortest(coded, plane.len()).unwrap_or((Method::Store, plane))
}

/// Encodes the plane with Huffman codes, or with rANS if that is expected to be
/// smaller by more than 1/`min_gain_divisor` of the plane. Only one of them is
/// made.
pub(super) fn huffman_or_rans<E: PackEngine>(
    engine: &E,
    plane: Vec<u8>,
    parts: usize,
    min_gain_divisor: usize,
) -> (Method, Vec<u8>) {
    let counts = rans::chunk_counts(engine, &plane, CHUNK_BYTES);
    // Blocks of a zstd frame, each with a code of its own, span two chunks.
    let blocks = counts.chunks(2).map(sum);
    let huffman: usize = blocks.map(|counts| huffman_block_bytes(&counts)).sum();
    let all = sum(&counts);
    let adaptive = rans::adaptive_len_bytes(&counts);
    let shared = rans::shared_len_bytes(&all);
    let coded = if shared.min(adaptive) >= huffman.saturating_sub(plane.len() / min_gain_divisor) {
        Codec::Blocks(BlockCodecs::HUFFMAN).encode(engine, &plane, parts)
    } else if shared < adaptive {
        let coded = rans::encode_shared_counted(engine, &plane, &all);
        Some((Method::Rans, coded))
    } else {
        let coded = rans::encode_adaptive_counted(engine, &plane, &counts);
        Some((Method::RansAdaptive, coded))
    };
    let coded = coded.filter(|(_, payload)| payload.len() < plane.len());
    coded.unwrap_or((Method::Store, plane))
}

/// Returns the smallest zstd result, unless another codec is smaller by more than
/// 1/`min_gain_divisor` of the plane. Of the other codecs whose length follows
/// from byte counts, only the best one is tried, and only if it gains enough.
pub(super) fn prefer_fast<E: PackEngine>(
    engine: &E,
    plane: Vec<u8>,
    parts: usize,
    codecs: &[Codec],
    min_gain_divisor: usize,
) -> (Method, Vec<u8>) {
    let (fast, slow): (Vec<Codec>, Vec<Codec>) = codecs.iter().partition(|codec| codec.is_zstd());
    let best = shortest(try_all(engine, &plane, parts, fast), plane.len());
    let best_len = best
        .as_ref()
        .map_or(plane.len(), |(_, payload)| payload.len());
    let min_gain = match plane.len() / min_gain_divisor {
        // A plane that compresses to less than an eighth leaves the slow codecs
        // little to decode: half a percent of the result is gain enough.
        gain if best_len < plane.len() / 8 => gain.min(best_len / 200),
        gain => gain,
    };
    let max_bytes = best_len.saturating_sub(min_gain);

    let (counted, mut tried): (Vec<_>, Vec<_>) = slow
        .into_iter()
        .map(|codec| (codec.expected_len_bytes(engine, &plane), codec))
        .partition(|(expected, _)| expected.is_some());
    let best_counted = counted.into_iter().min_by_key(|(expected, _)| *expected);
    let gains_enough = |expected: Option<usize>| expected.is_some_and(|len| len < max_bytes);
    tried.extend(best_counted.filter(|(expected, _)| gains_enough(*expected)));
    let tried = tried.into_iter().map(|(_, codec)| codec).collect();
    shortest(try_all(engine, &plane, parts, tried), max_bytes)
        .or(best)
        .unwrap_or((Method::Store, plane))
}

fn try_all<E: PackEngine>(
    engine: &E,
    plane: &[u8],
    parts: usize,
    codecs: Vec<Codec>,
) -> Vec<(Method, Vec<u8>)> {
    if plane.is_empty() {
        return Vec::new();
    }
    let coded = engine.map(codecs, |codec| codec.encode(engine, plane, parts));
    coded.into_iter().flatten().collect()
}

/// Returns the shortest payload below `limit_bytes`; among equals the first,
/// whatever the number of threads.
fn shortest(coded: Vec<(Method, Vec<u8>)>, limit_bytes: usize) -> Option<(Method, Vec<u8>)> {
    coded
        .into_iter()
        .min_by_key(|(_, payload)| payload.len())
        .filter(|(_, payload)| payload.len() < limit_bytes)
}
