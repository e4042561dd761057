//! The rows of a plan, and the keys of their results.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use zstn_core::frame::select::EncodeOptions;

pub(crate) use crate::proof::hex;

/// A file to pack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Row {
    /// The repository, such as `OWNER/NAME`.
    pub repo: String,
    /// The commit from which the file is read.
    pub revision: String,
    /// Path of the file in the repository.
    pub path: String,
    /// Length of the file in bytes.
    #[serde(rename = "size")]
    pub len_bytes: u64,
    /// SHA-256 of the file, in lower-case hex.
    pub sha256: String,
    /// [`key`] of the result. It is computed from the SHA-256 if the plan has none.
    #[serde(default)]
    pub key: String,
    /// Keys of the files that a delta needs: its base, the base of that one, and so on,
    /// down to a container. Empty if the row itself is packed into a container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bases: Vec<String>,
    /// Length of the largest tensor in bytes, if the plan states it. The Python job
    /// reserves memory according to it.
    #[serde(
        default,
        rename = "largest_tensor",
        skip_serializing_if = "Option::is_none"
    )]
    pub largest_tensor_bytes: Option<u64>,
    /// The version of the file when it was listed, such as an ETag. A later plan reuses
    /// the SHA-256 of a file with the same version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

impl Row {
    /// Returns the row of a file, with its key.
    #[must_use]
    pub fn new(
        (repo, revision, path): (&str, &str, &str),
        len_bytes: u64,
        sha256: &str,
        options: impl Into<EncodeOptions>,
    ) -> Self {
        Self {
            repo: repo.into(),
            revision: revision.into(),
            path: path.into(),
            len_bytes,
            sha256: sha256.into(),
            key: key(sha256, options),
            bases: Vec::new(),
            largest_tensor_bytes: None,
            version: None,
        }
    }

    /// Returns the name of the packed file: `KEY.zstn`, or `KEY.z4dm` for a delta.
    #[must_use]
    pub fn packed_name(&self) -> String {
        packed_name(&self.key, !self.bases.is_empty())
    }

    /// Returns the names of the packed files of [`Row::bases`], in the same order.
    #[must_use]
    pub fn base_names(&self) -> Vec<String> {
        let bases = self.bases.iter().enumerate();
        bases
            .map(|(number, key)| packed_name(key, number + 1 < self.bases.len()))
            .collect()
    }
}

fn packed_name(key: &str, is_difference: bool) -> String {
    match is_difference {
        true => format!("{key}.z4dm"),
        false => format!("{key}.zstn"),
    }
}

/// The version of the packer's output, which is the package version. It is part of
/// every key, so that results of another version are not reused.
pub const FORMAT: &str = concat!("zstn-", env!("CARGO_PKG_VERSION"));

/// Returns the key for a file with this SHA-256 (in lower-case hex) that is packed into
/// a container. A key has 64 hex digits.
#[must_use]
pub fn key(sha256: &str, options: impl Into<EncodeOptions>) -> String {
    key_against(sha256, options, &[])
}

/// Returns the key for a file that is stored as a delta. `bases` are the keys of its
/// base, of the base of that one if it is a delta itself, and so on.
#[must_use]
pub fn key_against(sha256: &str, options: impl Into<EncodeOptions>, bases: &[String]) -> String {
    let options = options.into();
    let effort = format!("{:?}", options.effort).to_lowercase();
    let extended = if options.is_extended() {
        " extended"
    } else {
        ""
    };
    let mut text = format!("{sha256}\n{FORMAT}\n{effort}{extended}\n");
    for base in bases {
        text.push_str(&format!("base {base}\n"));
    }
    hex_digest(text.as_bytes())
}

/// Returns the SHA-256 of bytes in lower-case hex.
pub(crate) fn hex_digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns whether a text is a SHA-256 or a key in lower-case hex.
pub(crate) fn is_digest(text: &str) -> bool {
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.len() == 64 && text.bytes().all(is_hex)
}
