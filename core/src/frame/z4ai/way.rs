//! A plane to its payload, in the ways a recipe names.

use alloc::vec::Vec;

use super::recipe::{Way, ZstdWays};
use crate::engine::{PackEngine, ZstdCoding};
use crate::entropy::{blocks, rans};
use crate::frame::plane::Method;

impl ZstdWays {
    /// The smallest zstd frame of `raw`.
    pub(super) fn encode<E: PackEngine>(self, engine: &E, raw: &[u8]) -> Vec<u8> {
        let huffman = self.huffman.then_some(ZstdCoding::Huffman);
        let codings = [huffman, self.search];
        let frames = codings.into_iter().flatten().map(|coding| {
            let mut frame = Vec::new();
            engine.zstd_encode(raw, coding, &mut frame);
            frame
        });
        // The first of equals: Huffman codes decode faster.
        frames.min_by_key(Vec::len).unwrap_or_default()
    }
}

impl Way {
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
            let lens: Vec<u32> = coded
                .iter()
                .map(|block| u32::try_from(block.len()).expect("a block is at most a few MiB"))
                .collect();
            let mut out = blocks::table(block_bytes, &lens);
            for block in &coded {
                out.extend_from_slice(block);
            }
            (Method::Blocks, out)
        }
    }
}

/// The smallest of `ways`, or the plane itself where none gains. A way that
/// is not zstd has to be smaller than the zstd ones by more than one part in
/// `rans_gain`, if there is one.
pub(super) fn smallest<E: PackEngine>(
    engine: &E,
    plane: Vec<u8>,
    parts: usize,
    ways: &[Way],
    rans_gain: Option<usize>,
) -> (Method, Vec<u8>) {
    if plane.is_empty() {
        return (Method::Store, plane);
    }
    let coded = engine.map(ways.to_vec(), |way| way.encode(engine, &plane, parts));
    let is_fast = |method| matches!(method, Method::Zstd | Method::Blocks);
    let (fast, slow): (Vec<_>, Vec<_>) = coded
        .into_iter()
        .flatten()
        .partition(|(method, _)| is_fast(*method));
    // The first of equals wins, on any number of threads.
    let least =
        |coded: Vec<(Method, Vec<u8>)>| coded.into_iter().min_by_key(|(_, payload)| payload.len());
    let mut best = (Method::Store, plane);
    if let Some(fast) = least(fast).filter(|(_, payload)| payload.len() < best.1.len()) {
        best = fast;
    }
    let margin = rans_gain.map_or(0, |part| best.1.len() / part);
    match least(slow) {
        Some(slow) if slow.1.len() + margin < best.1.len() => slow,
        _ => best,
    }
}
