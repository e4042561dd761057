//! Malformed Gauss files.

use zstn_core::Rule;
use zstn_core::engine::Engine;

use super::{Case, read_all};

/// Returns a file with one raw tensor `w` of these dimensions and no bytes.
fn raw(shape: &[u32]) -> Vec<u8> {
    let mut file = b"GAUSS004\0\0\0\0\x01\0\0\0\x01\0w".to_vec();
    file.push(u8::try_from(shape.len()).expect("few dimensions"));
    file.extend(shape.iter().flat_map(|dimension| dimension.to_le_bytes()));
    // The dtype F32, and the length.
    file.extend_from_slice(&[0; 5]);
    file
}

/// Returns a file with one coded F32 tensor of one element, in `shards` shards, the
/// first with `components` components. The zeros that follow suffice for one shard with
/// two components.
fn coded(shards: u8, components: u8) -> Vec<u8> {
    let mut file = b"GAUSS004\x01\0\0\0\0\0\0\0\x01\0w".to_vec();
    file.extend_from_slice(&[1, 1, 0, 0, 0, 0]);
    file.extend_from_slice(&[shards, 0, 1, 0, 0, 0, components]);
    file.resize(file.len() + 60, 0);
    file
}

pub fn cases(engine: &impl Engine) -> Vec<Case> {
    vec![
        (Rule::GaussShape, read_all(engine, &raw(&[u32::MAX; 3]))),
        // The vectors for these two rules are too short for their tensor count, which
        // readers detect first.
        (Rule::GaussShards, read_all(engine, &coded(0, 2))),
        (Rule::Truncated, read_all(engine, &coded(1, 255))),
    ]
}
