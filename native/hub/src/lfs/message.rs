//! The messages of the transfer agent protocol, one JSON object per line.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A message from git-lfs.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum Request {
    /// Begins the session.
    Init,
    /// Upload an object of the local repository.
    Upload(Transfer),
    /// Download an object that the local repository lacks.
    Download(Transfer),
    /// Ends the session.
    Terminate,
}

/// An object to transfer.
#[derive(Debug, Deserialize)]
pub(super) struct Transfer {
    pub(super) oid: String,
    /// Length of the original, in bytes.
    pub(super) size: u64,
    /// The local file of an object to upload.
    #[serde(default)]
    pub(super) path: String,
    /// The request that the server specifies; `None` without a server.
    #[serde(default)]
    pub(super) action: Option<Action>,
}

/// A request to an LFS server.
#[derive(Deserialize)]
pub(super) struct Action {
    pub(super) href: String,
    #[serde(default)]
    pub(super) header: Option<BTreeMap<String, String>>,
}

/// Omits the values of headers and the query of the address, which may contain secrets.
impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let href = self.href.split('?').next();
        f.debug_struct("Action")
            .field("href", &href)
            .finish_non_exhaustive()
    }
}

/// A message to git-lfs.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Response<'a> {
    /// The agent is ready.
    Ready {},
    /// The agent cannot start.
    NotReady { error: Problem },
    /// Progress, in bytes of the original.
    Progress {
        event: &'static str,
        oid: &'a str,
        #[serde(rename = "bytesSoFar")]
        so_far_bytes: u64,
        #[serde(rename = "bytesSinceLast")]
        since_last_bytes: u64,
    },
    /// The transfer of an object has ended.
    Complete {
        event: &'static str,
        oid: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<Problem>,
    },
}

impl<'a> Response<'a> {
    pub(super) fn progress(oid: &'a str, so_far_bytes: u64, since_last_bytes: u64) -> Self {
        Self::Progress {
            event: "progress",
            oid,
            so_far_bytes,
            since_last_bytes,
        }
    }

    pub(super) fn complete(oid: &'a str, path: Option<&'a str>) -> Self {
        Self::Complete {
            event: "complete",
            oid,
            path,
            error: None,
        }
    }

    pub(super) fn failed(oid: &'a str, error: Problem) -> Self {
        Self::Complete {
            event: "complete",
            oid,
            path: None,
            error: Some(error),
        }
    }
}

/// An error that git-lfs shows to the user.
#[derive(Debug, Serialize)]
pub(super) struct Problem {
    pub(super) code: u16,
    pub(super) message: String,
}
