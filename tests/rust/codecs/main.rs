//! Frames and the codecs inside them: encoded data decode to the same bytes with both
//! engines, and damage is refused.

mod device_plan;
mod difference;
mod encoder_choice;
mod frame_families;
mod intervals;
mod lattice;
mod low_rank;
mod misleading_samples;
mod plane_blocks;
mod pure_encoder;
mod rans;
mod zstd_literals;
mod zstd_sequences;

use zstn_core::engine::Engine;
use zstn_core::frame::decompress;
use zstn_core::pure::Pure;
use zstn_core::{ErrorKind, Rule};
use zstn_tests::{cases, native};

/// Errors of `Pure` for frames that C zstd accepts. The fastest loops of C zstd check
/// neither the end of a Huffman stream nor its end marker. They also allow a block to
/// decode to more bytes than the format permits if the buffer has capacity, and
/// continue a table description that runs past its block with bits read earlier.
pub const STRICT: [&str; 4] = [
    "a Huffman stream does not end with its last symbol",
    "a Huffman stream has no end mark",
    "a block exceeds the largest block size",
    "a block ends inside a table of finite state entropy",
];

/// Asserts that both engines decode every vector in the folder of a frame family to the bytes
/// next to it.
///
/// # Panics
/// If one does not, or if there are fewer than `least`.
pub fn vectors_decode(family: &str, least: usize) {
    let manifest = cases::read(family, "manifest.json");
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).expect("JSON");
    let cases = manifest["cases"].as_object().expect("cases");
    assert!(cases.len() >= least, "{} vectors", cases.len());
    for name in cases.keys() {
        let frame = cases::read(family, &format!("{name}.{family}"));
        let truth = cases::read(family, &format!("{name}.bin"));
        let limit = truth.len() as u64;
        for decoded in [
            decompress(&Pure, &frame, limit),
            decompress(&native(), &frame, limit),
        ] {
            let bytes = decoded.unwrap_or_else(|error| panic!("{name}: {error}"));
            let wrong = bytes.iter().zip(&truth).position(|(a, b)| a != b);
            assert_eq!(wrong, None, "{name}: the first wrong byte");
            assert_eq!(bytes.len(), truth.len(), "{name}");
        }
    }
}

/// Asserts that every shorter part of each frame is refused, and each frame with a byte
/// after its end.
pub fn refuses_other_lengths(frames: &[Vec<u8>]) {
    for frame in frames {
        for len in 0..frame.len() {
            let error = decompress(&Pure, &frame[..len], 1 << 20).expect_err("cut");
            assert_eq!(error.kind(), ErrorKind::Malformed, "cut at {len}: {error}");
        }
        let longer = [&frame[..], &[0]].concat();
        let error = decompress(&Pure, &longer, 1 << 20).expect_err("a byte too many");
        assert_eq!(error.rule(), Some(Rule::FrameTrailing), "{error}");
    }
}

/// Returns the bytes that C zstd decodes from `frame`, if there are `len` of them.
pub fn by_c(frame: &[u8], len: usize) -> Option<Vec<u8>> {
    // The buffer has one extra byte, so that longer results are refused as well.
    let bytes = zstd::bulk::decompress(frame, len + 1).ok()?;
    (bytes.len() == len).then_some(bytes)
}

/// Decodes `frame` to `len` bytes with the Rust decoder, or returns its error message.
pub fn by_pure(frame: &[u8], len: usize) -> Result<Vec<u8>, String> {
    let mut out = vec![0; len];
    Pure.zstd_decode(frame, &mut out).map(|()| out)
}
