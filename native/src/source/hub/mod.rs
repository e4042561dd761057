//! Files in the repositories of a model hub, such as Hugging Face.

mod address;
mod login;
pub mod offline;
mod refusal;
mod repository;

use std::env;
use std::fmt;
use std::sync::OnceLock;

pub(super) use address::HubAddress;
pub(super) use login::Login;
pub use repository::{RepoKind, Repository};

use crate::Result;

/// The hub that is used by default.
const ENDPOINT: &str = "https://huggingface.co";

/// Returns the address of the hub for this process, `$HF_ENDPOINT`, without a trailing
/// slash.
pub(super) fn endpoint() -> String {
    let set = env::var("HF_ENDPOINT").unwrap_or_default();
    without_slash(if set.is_empty() { ENDPOINT } else { &set }).into()
}

pub(super) fn without_slash(endpoint: &str) -> &str {
    endpoint.trim_end_matches('/')
}

/// A file in a hub. The first response determines the commit from which it is read.
#[derive(Debug)]
pub(super) struct HubFile {
    address: HubAddress,
    endpoint: String,
    login: Login,
    /// The commit that the first response came from.
    commit: OnceLock<String>,
}

impl HubFile {
    /// Parses `address`, which refers to the hub at `endpoint`.
    pub(super) fn new(address: &str, endpoint: String, login: Login) -> Result<Self> {
        Ok(Self {
            address: HubAddress::parse(address)?,
            endpoint,
            login,
            commit: OnceLock::new(),
        })
    }

    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(super) fn login(&self) -> &Login {
        &self.login
    }

    /// Returns the http(s) address to request. Once the commit is known, this is the
    /// address of the file in that commit, because a branch may move between two
    /// requests.
    pub(super) fn url(&self) -> String {
        let commit = self.commit.get().map(String::as_str);
        self.address.url(&self.endpoint, commit)
    }

    /// Records the commit that a response of the hub came from (`X-Repo-Commit`).
    pub(super) fn note_commit(&self, commit: &str) {
        let is_hex = commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        if (40..=64).contains(&commit.len()) && is_hex {
            let _ = self.commit.set(commit.into());
        }
    }

    /// Returns the address of the file in the commit that is read, if the hub has
    /// reported that commit.
    pub(super) fn pinned(&self) -> Option<String> {
        let commit = self.commit.get()?;
        Some(self.address.at(commit).to_string())
    }
}

impl fmt::Display for HubFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}
