//! The result of a row.

use serde::{Deserialize, Serialize};

use super::Row;
use super::key::is_digest;

/// A file that was packed and verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Done {
    /// The row; others with the same key may be in other places.
    #[serde(flatten)]
    pub row: Row,
    /// Length of the packed file in bytes.
    #[serde(rename = "packed_size")]
    pub packed_bytes: u64,
    /// SHA-256 of the packed file, in lower-case hex.
    pub packed_sha256: String,
}

impl Done {
    /// Returns the entry for a row.
    #[must_use]
    pub fn new(row: Row, packed_bytes: u64, packed_sha256: String) -> Self {
        Self {
            row,
            packed_bytes,
            packed_sha256,
        }
    }

    /// Returns whether this is the entry of the row: of the same work on the same
    /// content, with the digest of the packed file.
    #[must_use]
    pub fn is_of(&self, row: &Row) -> bool {
        self.row.key == row.key
            && self.row.sha256 == row.sha256
            && self.row.packed_name() == row.packed_name()
            && is_digest(&self.packed_sha256)
    }
}

/// The kind of a failure: it decides about another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// It failed for a reason that may pass: the network, a server, the disk.
    Retry,
    /// It would fail again: the file is not safetensors, grows when it is packed, or
    /// may not be read.
    Refused,
}

/// A file that was not packed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failed {
    /// The row.
    #[serde(flatten)]
    pub row: Row,
    /// The kind of the failure.
    pub class: Class,
    /// The reason, as a sentence.
    pub reason: String,
}

impl Failed {
    /// Returns the entry for a row.
    #[must_use]
    pub fn new(row: Row, class: Class, reason: String) -> Self {
        Self { row, class, reason }
    }
}
