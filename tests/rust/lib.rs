//! Shared by the tests of this workspace: the golden vectors and the two
//! engines every one of them runs on.

pub mod cases;
pub mod memory;
pub mod rng;

use std::path::PathBuf;

use sha2::{Digest, Sha256};

/// The top of the repository.
#[must_use]
pub fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(PathBuf::from)
        .unwrap_or_default()
}

/// SHA-256 in lower-case hex.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
