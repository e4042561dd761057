//! The SHA-256 of the original that a packed file contains.

use std::fmt;

use serde_json::{Value, json};
use zstn_core::catalog::FileCatalog;
use zstn_core::model::Model;

/// The SHA-256 of an original file.
pub struct Sha256 {
    hex: String,
    /// True if the packer was given the digest and did not check it.
    is_claimed: bool,
}

impl Sha256 {
    /// Returns the digests of a model's files; `None` for a file without one.
    pub fn of(model: &Model) -> Vec<Option<Self>> {
        model.files().iter().map(Self::of_file).collect()
    }

    fn of_file(file: &FileCatalog) -> Option<Self> {
        let integrity = file.integrity()?;
        let (bytes, is_claimed) = match integrity.original_sha256() {
            Some(bytes) => (bytes, false),
            None => (integrity.claimed_sha256()?, true),
        };
        let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(Self { hex, is_claimed })
    }
}

impl fmt::Display for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { hex, is_claimed } = self;
        match is_claimed {
            true => write!(
                f,
                "{hex} (claimed when it was packed; unpack and verify compare it)"
            ),
            false => write!(f, "{hex} (of the original)"),
        }
    }
}

/// Adds `originals` to the description.
pub fn add_to(json: &mut Value, all: &[Option<Sha256>]) {
    let objects = all.iter().map(|sha256| match sha256 {
        None => Value::Null,
        Some(Sha256 { hex, is_claimed }) => json!({"sha256": hex, "claimed": is_claimed}),
    });
    json["originals"] = objects.collect();
}
