//! Malformed difference frames.

use zstn_core::Rule;
use zstn_core::engine::Engine;
use zstn_core::frame::difference::Difference;
use zstn_tests::difference_frame::{DifferenceFrame, seal, seal_block};

use super::Case;

/// Offsets in the frame below: its first coding, its first table, and the states.
const CODINGS_AT: usize = 57;
const TABLES_AT: usize = CODINGS_AT + 2 + 2;

/// Returns a frame of 16 elements in one group and one context, with 16 raw bits, and
/// its base.
fn frame() -> (Vec<u8>, Vec<u8>) {
    let base: Vec<u8> = (0..16)
        .flat_map(|i| (0x3F80u16 + i).to_le_bytes())
        .collect();
    let tensor: Vec<u8> = (0..16u16)
        .flat_map(|i| (0x3F80 + i + i % 3).to_le_bytes())
        .collect();
    let fields = DifferenceFrame {
        dtype: 0,
        states: 8,
        group: 16,
        block: 4096,
        contexts: [20, 20],
        codes: vec![90],
        means: None,
        codings: vec![(0, 1)],
        low_rank: None,
    };
    (fields.encode(&base, &tensor), base)
}

pub fn cases(engine: &impl Engine) -> Vec<Case> {
    let (good, base) = frame();
    let decoded = |frame: &[u8]| Difference::parse(frame)?.decode(engine, &base).map(drop);
    assert!(decoded(&good).is_ok(), "{:?}", decoded(&good));
    let with = |at: usize, value: u8| {
        let mut frame = good.clone();
        frame[at] = value;
        frame
    };
    let in_head = |at, value| {
        let mut frame = with(at, value);
        seal(&mut frame);
        decoded(&frame)
    };
    let in_block = |at, value| {
        let mut frame = with(at, value);
        seal_block(&mut frame);
        decoded(&frame)
    };
    let blocks_at = usize::from(good[44]);
    let last = good.len() - 1;
    vec![
        (Rule::DifferenceHeader, in_head(5, 3)),
        (
            Rule::DifferenceHeadChecksum,
            decoded(&with(60, good[60] ^ 1)),
        ),
        (Rule::InterleavedSide, in_head(55, 2)),
        (Rule::DifferenceContexts, in_head(CODINGS_AT, 1)),
        // The first symbol of the table comes after the last one.
        (Rule::InterleavedTable, in_head(TABLES_AT, 86)),
        // The length of a rANS stream.
        (Rule::DifferenceBlocks, in_head(blocks_at - 12, 0)),
        (
            Rule::DifferenceBlockChecksum,
            decoded(&with(last, !good[last])),
        ),
        (Rule::InterleavedStream, in_block(blocks_at + 2, 0)),
        (Rule::DifferenceRawBits, {
            let mut frame = good.clone();
            frame.push(0);
            frame[blocks_at - 8] += 1;
            seal_block(&mut frame);
            decoded(&frame)
        }),
    ]
}
