//! Single frames.

use zstn_core::Rule;
use zstn_core::engine::Engine;
use zstn_core::frame::decompress;

use super::Case;

/// A `ZSP1` frame of bytes without values, as far as its bitmap.
fn sparse(elements: u64, nonzero: u64, bitmap: &[u8]) -> Vec<u8> {
    let mut frame = b"ZSP1\x01\x01\0\0".to_vec();
    frame.extend_from_slice(&elements.to_le_bytes());
    frame.extend_from_slice(&nonzero.to_le_bytes());
    // No tail, no NumPy dtype and no NumPy shape.
    frame.extend_from_slice(&[0; 6]);
    frame.extend_from_slice(&(bitmap.len() as u64).to_le_bytes());
    frame.extend_from_slice(bitmap);
    frame
}

pub fn cases(engine: &impl Engine) -> Vec<Case> {
    let decoded = |frame: &[u8]| decompress(engine, frame, 1 << 20).map(drop);
    vec![
        (Rule::FrameParts, decoded(&sparse(0, 0, &[0]))),
        (Rule::SparseCount, decoded(&sparse(0, 1, &[]))),
    ]
}
