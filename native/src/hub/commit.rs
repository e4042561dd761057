//! Commits.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use ureq::http::StatusCode;

use super::client::problem;
use super::revision::{encoded, is_commit};
use super::{Hub, Refusal, Repository};
use crate::{Error, Result};

/// A file that a commit adds or replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Addition {
    /// A large file, which has been uploaded.
    Large {
        /// Its path in the repository.
        path: String,
        /// SHA-256 of its bytes, in lower-case hex.
        sha256: String,
        /// Its length in bytes.
        len_bytes: u64,
    },
    /// A small file, by its bytes.
    Small {
        /// Its path in the repository.
        path: String,
        /// Its bytes.
        bytes: Vec<u8>,
    },
}

impl Addition {
    /// Returns its path in the repository.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Large { path, .. } | Self::Small { path, .. } => path,
        }
    }

    fn line(&self) -> Value {
        match self {
            Self::Large {
                path,
                sha256,
                len_bytes,
            } => json!({
                "key": "lfsFile",
                "value": { "path": path, "algo": "sha256", "oid": sha256, "size": len_bytes },
            }),
            Self::Small { path, bytes } => json!({
                "key": "file",
                "value": {
                    "path": path,
                    "content": BASE64_STANDARD.encode(bytes),
                    "encoding": "base64",
                },
            }),
        }
    }
}

/// A commit that is to be made.
#[derive(Debug, Clone, Copy)]
pub struct NewCommit<'a> {
    /// Branch that it is added to.
    pub branch: &'a str,
    /// The commit that the branch has to have.
    pub parent: &'a str,
    /// First line of the message.
    pub summary: &'a str,
    /// The rest of it.
    pub description: &'a str,
    /// Files that it adds or replaces.
    pub additions: &'a [Addition],
}

impl Hub {
    /// Adds a commit to a branch, and returns its name.
    ///
    /// # Errors
    /// [`Refusal::ParentMoved`] if the branch has another commit than the parent,
    /// which may be this very one if an answer was lost; other refusals, and errors of
    /// the network.
    pub fn commit(&self, repository: &Repository, commit: &NewCommit<'_>) -> Result<String> {
        let header = json!({
            "key": "header",
            "value": {
                "summary": commit.summary,
                "description": commit.description,
                "parentCommit": commit.parent,
            },
        });
        let lines = commit.additions.iter().map(Addition::line);
        let mut body = String::new();
        for line in std::iter::once(header).chain(lines) {
            body.push_str(&line.to_string());
            body.push('\n');
        }
        let path = format!("{}/commit/{}", repository.api(), encoded(commit.branch));
        let body = Some(("application/x-ndjson", body.as_bytes()));
        let moved = StatusCode::PRECONDITION_FAILED.as_u16();
        let (answer, _) =
            self.call(repository, "POST", &path, body)
                .map_err(|error| match error {
                    Error::Http { status, .. } if status == Some(moved) => Refusal::ParentMoved {
                        repository: repository.to_string(),
                        branch: commit.branch.into(),
                    }
                    .into(),
                    error => error,
                })?;
        let made = answer["commitOid"].as_str().filter(|made| is_commit(made));
        made.map(str::to_owned).ok_or_else(|| {
            let detail = "the hub does not say which commit it made".into();
            problem(&format!("{}{path}", self.endpoint()), detail, None)
        })
    }
}
