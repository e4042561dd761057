//! Malformed payloads of planes and streams.

use zstn_core::Rule;
use zstn_core::entropy::{rans, zstd};

use super::Case;

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

pub fn cases() -> Vec<Case> {
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
