//! Malformed frames, their planes and streams, and sketches.

use zstn_core::Rule;
use zstn_core::bytes::Cursor;
use zstn_core::dtype::Dtype;
use zstn_core::engine::Engine;
use zstn_core::entropy::{rans, zstd};
use zstn_core::frame::decompress;
use zstn_core::frame::difference::Difference;
use zstn_core::frame::difference::low_rank::{LowRank, LowRankHead};
use zstn_core::pure::Pure;
use zstn_core::sketch::Sketch;
use zstn_tests::cases;
use zstn_tests::frames::{
    DifferenceFrame, LatticeFields, seal, seal_block, seal_intervals, stored,
};

use super::Case;
use crate::sketch::sealed;

/// Returns a `ZSP1` frame of bytes without values, up to and including its bitmap.
fn sparse(elements: u64, nonzero: u64, bitmap: &[u8]) -> Vec<u8> {
    let mut frame = b"ZSP1\x01\x01\0\0".to_vec();
    frame.extend_from_slice(&elements.to_le_bytes());
    frame.extend_from_slice(&nonzero.to_le_bytes());
    // The frame has no tail, no NumPy dtype and no NumPy shape.
    frame.extend_from_slice(&[0; 6]);
    frame.extend_from_slice(&(bitmap.len() as u64).to_le_bytes());
    frame.extend_from_slice(bitmap);
    frame
}

pub fn standalone_frames(engine: &impl Engine) -> Vec<Case> {
    let decoded = |frame: &[u8]| decompress(engine, frame, 1 << 20).map(drop);
    let lattice = |change: fn(&mut LatticeFields)| {
        let mut fields = LatticeFields {
            geometry: [2, 4, 1, 4],
            size_scales: [7, 0],
            frames: vec![stored(&[7; 8]), stored(&[0; 4])],
            ..LatticeFields::default()
        };
        change(&mut fields);
        decoded(&fields.frame())
    };
    vec![
        (Rule::FrameParts, decoded(&sparse(0, 0, &[0]))),
        (Rule::SparseCount, decoded(&sparse(0, 1, &[]))),
        (
            Rule::LatticeHead,
            lattice(|fields| fields.dtype_grid_flags[1] = 5),
        ),
        (Rule::LatticeShape, lattice(|fields| fields.geometry[2] = 0)),
        (
            Rule::LatticeFrames,
            lattice(|fields| fields.frames[0] = b"ZXQ1".to_vec()),
        ),
        (
            Rule::LatticeScale,
            lattice(|fields| fields.frames[1] = stored(&[0x80, 0x7f, 0, 0])),
        ),
        (
            Rule::LatticeSymbol,
            lattice(|fields| fields.frames[0] = stored(&[16; 8])),
        ),
        (
            Rule::LatticeExceptions,
            lattice(|fields| {
                fields.dtype_grid_flags[2] = 2;
                fields.frames.extend([stored(&[1]), stored(&[0; 6])]);
            }),
        ),
    ]
}

/// Changes the worked example of docs/formats/zxi1.md, which has one block.
pub fn intervals(engine: &impl Engine) -> Vec<Case> {
    let example = cases::read("zxi1", "example.zxi1");
    let head_len = usize::from(example[28]);
    let changed = |change: &dyn Fn(&mut Vec<u8>), is_sealed: bool| {
        let mut frame = example.clone();
        change(&mut frame);
        if is_sealed {
            seal_intervals(&mut frame);
        }
        decompress(engine, &frame, 1 << 20).map(drop)
    };
    let less_raw = |frame: &mut Vec<u8>| {
        frame[head_len - 8] -= 1;
        frame.pop();
    };
    vec![
        (Rule::IntervalsHead, changed(&|frame| frame[6] = 1, true)),
        (
            Rule::IntervalsHeadChecksum,
            changed(&|frame| frame[head_len - 1] ^= 1, false),
        ),
        // The intervals of a 16-bit frame exceed the range of 8 bits.
        (Rule::IntervalsList, changed(&|frame| frame[5] = 1, true)),
        (
            Rule::IntervalsBlocks,
            changed(&|frame| frame[head_len - 12] = 31, true),
        ),
        (
            Rule::IntervalsBlockChecksum,
            changed(&|frame| frame[head_len] ^= 1, false),
        ),
        (Rule::IntervalsRawBits, changed(&less_raw, true)),
    ]
}

/// Builds a zstd frame that stores `bytes` uncompressed and declares no content size.
fn raw_frame(window: u8, bytes: &[u8]) -> Vec<u8> {
    let last = u8::try_from(bytes.len() << 3 | 1).expect("few bytes");
    let mut frame = vec![0x28, 0xB5, 0x2F, 0xFD, 0, window, last, 0, 0];
    frame.extend_from_slice(bytes);
    frame
}

/// Returns a rANS table of two symbols with one bit each.
fn table() -> Vec<u8> {
    let mut table = [0u16; 256];
    table[..2].fill(8192);
    table.iter().flat_map(|f| f.to_le_bytes()).collect()
}

/// Returns a payload of plane method 3 for `symbols` symbols, whose stream consists
/// only of four states.
fn empty_stream(symbols: u64) -> Vec<u8> {
    let states = [0, 0, 0x80, 0].repeat(4);
    [&symbols.to_le_bytes()[..], &table(), &states].concat()
}

/// Returns a payload of plane method 3 with one symbol in an empty chunk.
fn empty_chunk() -> Vec<u8> {
    let symbols = (1u64 << 63 | 1).to_le_bytes();
    let count = 1u16.to_le_bytes();
    let len = 0u32.to_le_bytes();
    [&symbols[..], &count, &table(), &len].concat()
}

pub fn planes_and_streams() -> Vec<Case> {
    let kibibyte = 0;
    let quarter_gibibyte = 18 << 3;
    let two_frames = raw_frame(kibibyte, b"a").repeat(2);
    vec![
        (
            Rule::ZstdWindow,
            zstd::check(&raw_frame(quarter_gibibyte, b"a"), 1),
        ),
        (
            Rule::ZstdCapacity,
            zstd::check(&raw_frame(kibibyte, b"a"), 2),
        ),
        (Rule::ZstdTrailing, zstd::check(&two_frames, 1)),
        (
            Rule::ZstdSized,
            zstd::check_sized(&raw_frame(kibibyte, b"a"), 1),
        ),
        (
            Rule::RansChunks,
            rans::Shared::parse(&empty_chunk(), 1).map(drop),
        ),
        // Four states hold 32 bits, plus rounding.
        (
            Rule::RansCapacity,
            rans::Shared::parse(&empty_stream(64), 64).map(drop),
        ),
    ]
}

/// Offsets in the frame below: its first coding, its first table, and the states.
const CODINGS_AT: usize = 57;
const TABLES_AT: usize = CODINGS_AT + 2 + 2;

/// Returns a frame of 16 elements in one group and one context, with 16 raw bits, and
/// its base.
fn difference_frame() -> (Vec<u8>, Vec<u8>) {
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

pub fn difference_frames(engine: &impl Engine) -> Vec<Case> {
    let (good, base) = difference_frame();
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

/// Rank 1 for three rows and two columns, with five factors of three bits.
const VALID: LowRankHead = LowRankHead {
    rank: 1,
    bits: 3,
    shifts: [4, 4],
    rows: 3,
    columns: 2,
};

pub fn low_rank_predictions() -> Vec<Case> {
    let read = |head: LowRankHead, dtype, last| {
        let mut bytes = Vec::new();
        head.write(&mut bytes);
        bytes.extend([0, last]);
        LowRank::parse(&mut Cursor::new(&bytes), dtype, 6).map(|_| ())
    };
    assert_eq!(read(VALID, Dtype::Bf16, 0x7F), Ok(()));
    let fields = |head| read(head, Dtype::Bf16, 0);
    vec![
        (Rule::LowRankDtype, read(VALID, Dtype::F16, 0)),
        (Rule::LowRankShape, fields(LowRankHead { rows: 4, ..VALID })),
        (Rule::LowRankShape, fields(LowRankHead { rank: 3, ..VALID })),
        (Rule::LowRankBits, fields(LowRankHead { bits: 25, ..VALID })),
        (
            Rule::LowRankShift,
            fields(LowRankHead {
                shifts: [1000, 23],
                ..VALID
            }),
        ),
        (Rule::LowRankPadding, read(VALID, Dtype::Bf16, 0x80)),
    ]
}

pub fn sketches(engine: &impl Engine) -> Vec<Case> {
    let good = Sketch::new(7, None, Vec::new()).unwrap().to_bytes(&Pure);
    let read = |file: &[u8]| Sketch::parse(engine, file).map(drop);
    let changed = |at: usize, byte: u8| {
        let mut file = good.clone();
        file[at] = byte;
        file
    };
    vec![
        (Rule::SketchMagic, read(&changed(0, b'Y'))),
        (Rule::SketchVersion, read(&changed(8, 2))),
        (Rule::SketchDigest, read(&changed(30, 1))),
        (
            Rule::SketchLayout,
            read(&sealed([&good[..], &[0]].concat())),
        ),
    ]
}
