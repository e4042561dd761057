//! Entries for the results of rows.

use serde::{Deserialize, Serialize};

use super::Row;
use super::key::is_digest;

/// The entry of a file that was packed and verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Done {
    /// The row. Rows with the same key may have other places.
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

    /// Returns whether this entry is valid for the row: it has the same key, content
    /// and packed name, and a well-formed digest of the packed file.
    #[must_use]
    pub fn is_of(&self, row: &Row) -> bool {
        self.row.key == row.key
            && self.row.sha256 == row.sha256
            && self.row.packed_name() == row.packed_name()
            && is_digest(&self.packed_sha256)
    }
}

/// The class of a failure, which decides about another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// The reason is transient: the network, a server, the disk.
    Retry,
    /// Another attempt would fail as well: the file is not safetensors, grows when it
    /// is packed, or may not be read.
    Refused,
}

/// The entry of a file that was not packed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failed {
    /// The row of the plan.
    #[serde(flatten)]
    pub row: Row,
    /// The class of the failure.
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
