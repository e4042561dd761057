//! Chooses the payload of a plane among the results of the codecs that a recipe
//! names.

use alloc::vec::Vec;

use super::codec::{BlockCodecs, Codec};
use crate::engine::PackEngine;
use crate::entropy::histogram::sum;
use crate::entropy::rans;
use crate::entropy::rans::cost::CHUNK_BYTES;
use crate::entropy::zstd::cost::huffman_block_bytes;
use crate::frame::plane::Method;

/// A plane is uneven if a separate table for each chunk makes it shorter by more
/// than 1/n.
const UNEVEN_DIVISOR: usize = 16;

/// Returns the smallest result of `codecs`, or the plane itself if no codec makes
/// it smaller. Of the codecs whose length follows from byte counts, only the most
/// promising one is run.
pub(super) fn smallest<E: PackEngine>(
    engine: &E,
    plane: Vec<u8>,
    parts: usize,
    codecs: &[Codec],
) -> (Method, Vec<u8>) {
    let (counted, mut tried) = by_counts(engine, &plane, codecs.to_vec());
    tried.extend(counted.map(|(_, codec)| codec));
    let coded = try_all(engine, &plane, parts, tried);
    shortest(coded, plane.len()).unwrap_or((Method::Store, plane))
}

/// Encodes the plane with Huffman codes, or with rANS if that is expected to save
/// more than 1/`min_gain_divisor` of the plane. Only one of them is run unless
/// the plane is uneven. There, the counts do not predict the size of zstd blocks,
/// so blocks are also encoded with `uneven_codecs`, and used if they are not
/// larger than the expected size of rANS plus that gain.
pub(super) fn huffman_or_rans<E: PackEngine>(
    engine: &E,
    plane: Vec<u8>,
    parts: usize,
    min_gain_divisor: usize,
    uneven_codecs: BlockCodecs,
) -> (Method, Vec<u8>) {
    let counts = rans::chunk_counts(engine, &plane, CHUNK_BYTES);
    // Each block of a zstd frame has its own Huffman code and spans two chunks.
    let blocks = counts.chunks(2).map(sum);
    let huffman: usize = blocks.map(|counts| huffman_block_bytes(&counts)).sum();
    let all = sum(&counts);
    let adaptive = rans::adaptive_len_bytes(&counts);
    let shared = rans::shared_len_bytes(&all);
    let min_gain = plane.len() / min_gain_divisor;
    let uneven = (adaptive < shared - shared / UNEVEN_DIVISOR)
        .then(|| Codec::Blocks(uneven_codecs).encode(engine, &plane, parts))
        .flatten()
        .filter(|(_, payload)| payload.len() <= shared.min(adaptive) + min_gain);
    let coded = if uneven.is_some() {
        uneven
    } else if shared.min(adaptive) >= huffman.saturating_sub(min_gain) {
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

/// Returns the smallest zstd result, unless another codec saves more than
/// 1/`min_gain_divisor` of the plane in comparison. Of the other codecs whose
/// length follows from byte counts, only the most promising one is run, and only
/// if it is expected to save that much.
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
        // If the plane compresses to less than an eighth, a slow codec has little
        // to decode, so a gain of 0.5 % of the result is enough.
        gain if best_len < plane.len() / 8 => gain.min(best_len / 200),
        gain => gain,
    };
    let max_bytes = best_len.saturating_sub(min_gain);

    let (counted, mut tried) = by_counts(engine, &plane, slow);
    let gains_enough = counted.filter(|(expected, _)| *expected < max_bytes);
    tried.extend(gains_enough.map(|(_, codec)| codec));
    shortest(try_all(engine, &plane, parts, tried), max_bytes)
        .or(best)
        .unwrap_or((Method::Store, plane))
}

/// Returns the codec with the shortest expected payload among the codecs whose
/// length follows from byte counts, together with that length, and the remaining
/// codecs.
fn by_counts<E: PackEngine>(
    engine: &E,
    plane: &[u8],
    codecs: Vec<Codec>,
) -> (Option<(usize, Codec)>, Vec<Codec>) {
    let mut best: Option<(usize, Codec)> = None;
    let mut others = Vec::new();
    for codec in codecs {
        match codec.expected_len_bytes(engine, plane) {
            Some(len) if best.is_none_or(|(best_len, _)| len < best_len) => {
                best = Some((len, codec));
            }
            Some(_) => {}
            None => others.push(codec),
        }
    }
    (best, others)
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

/// Returns the shortest payload below `limit_bytes`. Of equal lengths the first
/// wins, so the result does not depend on the number of threads.
fn shortest(coded: Vec<(Method, Vec<u8>)>, limit_bytes: usize) -> Option<(Method, Vec<u8>)> {
    coded
        .into_iter()
        .min_by_key(|(_, payload)| payload.len())
        .filter(|(_, payload)| payload.len() < limit_bytes)
}
