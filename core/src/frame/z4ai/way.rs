//! A plane to its payload, in the ways a recipe names.

use alloc::vec::Vec;

use super::recipe::{Way, ZstdWays};
use crate::bytes;
use crate::engine::{PackEngine, ZstdCoding};
use crate::entropy::order0::{count, huffman_bits, sum, values};
use crate::entropy::{blocks, rans};
use crate::frame::plane::Method;

impl ZstdWays {
    /// The smallest zstd frame of `raw`.
    pub(super) fn encode<E: PackEngine>(self, engine: &E, raw: &[u8]) -> Vec<u8> {
        let coded = |coding| {
            let mut frame = Vec::new();
            engine.zstd_encode(raw, coding, &mut frame);
            frame
        };
        let huffman = self.huffman.then(|| coded(ZstdCoding::Huffman));
        let is_odd = |frame: &Vec<u8>| frame.len() < raw.len() / 256 * usize::from(self.odd_below);
        let search = match &huffman {
            Some(frame) if is_odd(frame) => Some(ODD_CODING),
            _ => self.search,
        };
        let frames = huffman.into_iter().chain(search.map(coded));
        // The first of equals: Huffman codes decode faster.
        frames.min_by_key(Vec::len).unwrap_or_default()
    }
}

/// For blocks that are unlike the rest of their plane.
const ODD_CODING: ZstdCoding = ZstdCoding::Search(3);

impl Way {
    fn is_zstd(self) -> bool {
        matches!(self, Self::Blocks(_) | Self::Zstd(_))
    }

    /// Length of what [`Self::encode`] will make of a plane, to a part in a
    /// thousand or so, where counting tells it.
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

    /// Method and payload for `plane`, made of `parts` unlike parts of equal
    /// length; `None` where this way cannot code it.
    pub(super) fn encode<E: PackEngine>(
        self,
        engine: &E,
        plane: &[u8],
        parts: usize,
    ) -> Option<(Method, Vec<u8>)> {
        Some(match self {
            Self::Blocks(ways) => {
                let block_bytes = ways.block_bytes(parts, plane.len() / parts);
                let blocks: Vec<&[u8]> = plane.chunks(block_bytes as usize).collect();
                let coded = engine.map(blocks, |block| ways.encode(engine, block));
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
            Self::RansOrder1 if plane.len() as u64 <= rans::ORDER1_MOST_SYMBOLS => {
                (Method::RansOrder1, rans::encode_order1(engine, plane))
            }
            Self::RansOrder1 => return None,
        })
    }
}

/// Coded blocks as the payload of a plane: a single one needs no table.
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

/// The smallest of `ways`, or the plane itself where none gains.
pub(super) fn smallest<E: PackEngine>(
    engine: &E,
    plane: Vec<u8>,
    parts: usize,
    ways: &[Way],
) -> (Method, Vec<u8>) {
    let coded = try_all(engine, &plane, parts, ways.to_vec());
    least(coded, plane.len()).unwrap_or((Method::Store, plane))
}

/// Huffman codes, or rANS where it is expected to be smaller by more than the
/// `gain_parts`-th part of the plane. Only one of them is made.
pub(super) fn huffman_or_rans<E: PackEngine>(
    engine: &E,
    plane: Vec<u8>,
    parts: usize,
    gain_parts: usize,
) -> (Method, Vec<u8>) {
    let counts = rans::chunk_counts(engine, &plane, RANS_CHUNK_BYTES);
    // Blocks of a zstd frame, each with a code of its own, span two chunks.
    let blocks = counts.chunks(2).map(|chunks| {
        let counts = sum(chunks);
        match values(&counts) {
            // Written down as one byte and how often it stands there.
            1 => 0,
            values => bytes::index(huffman_bits(&counts) / 8) + BLOCK_HEADS_BYTES + values / 2,
        }
    });
    let huffman = blocks.sum::<usize>();
    let all = sum(&counts);
    let adaptive = rans::adaptive_len_bytes(&counts);
    let shared = rans::shared_len_bytes(&all);
    let coded = if shared.min(adaptive) >= huffman.saturating_sub(plane.len() / gain_parts) {
        Way::Blocks(ZstdWays::HUFFMAN).encode(engine, &plane, parts)
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

/// Symbols that share a table: few enough for tables that fit, and no fewer
/// than pay for one.
const RANS_CHUNK_BYTES: usize = 1 << 16;
/// What a block of Huffman codes has besides its streams, about, and without
/// half a byte for each value in the description of its code.
const BLOCK_HEADS_BYTES: usize = 30;

/// The smallest of the ways that are zstd, or of the others where that is
/// smaller by more than the `gain_parts`-th part of the plane. Of these, those
/// whose size can be told from counts are coded only if they are it.
pub(super) fn fast_first<E: PackEngine>(
    engine: &E,
    plane: Vec<u8>,
    parts: usize,
    ways: &[Way],
    gain_parts: usize,
) -> (Method, Vec<u8>) {
    let (fast, slow): (Vec<Way>, Vec<Way>) = ways.iter().partition(|way| way.is_zstd());
    let best = least(try_all(engine, &plane, parts, fast), plane.len());
    let best_len = best
        .as_ref()
        .map_or(plane.len(), |(_, payload)| payload.len());
    let gain = match plane.len() / gain_parts {
        // Of a plane of which little is left, the slow ways have little to
        // decode: half a percent of that is enough.
        gain if best_len < plane.len() / 8 => gain.min(best_len / 200),
        gain => gain,
    };
    let most = best_len.saturating_sub(gain);

    let (told, mut worth): (Vec<_>, Vec<_>) = slow
        .into_iter()
        .map(|way| (way.expected_len_bytes(engine, &plane), way))
        .partition(|(expected, _)| expected.is_some());
    let promising = told.into_iter().min_by_key(|(expected, _)| *expected);
    worth.extend(promising.filter(|(expected, _)| expected.is_some_and(|len| len < most)));
    let worth = worth.into_iter().map(|(_, way)| way).collect();
    least(try_all(engine, &plane, parts, worth), most)
        .or(best)
        .unwrap_or((Method::Store, plane))
}

fn try_all<E: PackEngine>(
    engine: &E,
    plane: &[u8],
    parts: usize,
    ways: Vec<Way>,
) -> Vec<(Method, Vec<u8>)> {
    if plane.is_empty() {
        return Vec::new();
    }
    let coded = engine.map(ways, |way| way.encode(engine, plane, parts));
    coded.into_iter().flatten().collect()
}

/// The shortest below `most` bytes; of equals the first, on any number of
/// threads.
fn least(coded: Vec<(Method, Vec<u8>)>, most: usize) -> Option<(Method, Vec<u8>)> {
    coded
        .into_iter()
        .min_by_key(|(_, payload)| payload.len())
        .filter(|(_, payload)| payload.len() < most)
}
