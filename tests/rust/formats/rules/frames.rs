//! Malformed standalone frames.

use zstn_core::Rule;
use zstn_core::engine::Engine;
use zstn_core::frame::decompress;
use zstn_tests::lattice::{LatticeFields, stored};

use super::Case;

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

pub fn cases(engine: &impl Engine) -> Vec<Case> {
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
