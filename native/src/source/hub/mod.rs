//! Files in the repositories of a model hub, such as Hugging Face.

mod address;
mod login;
pub mod offline;
mod refusal;

use std::env;
use std::fmt;
use std::sync::OnceLock;

pub(super) use address::HubAddress;
pub(super) use login::Login;

use crate::Result;

/// The hub that addresses mean by default.
const ENDPOINT: &str = "https://huggingface.co";

/// Returns the address of the hub of this process: `$HF_ENDPOINT`, without a
/// slash at its end.
pub(super) fn endpoint() -> String {
    let set = env::var("HF_ENDPOINT").unwrap_or_default();
    without_slash(if set.is_empty() { ENDPOINT } else { &set }).into()
}

pub(super) fn without_slash(endpoint: &str) -> &str {
    endpoint.trim_end_matches('/')
}

/// One file of a hub, whose revision is settled by the first answer.
#[derive(Debug)]
pub(super) struct HubFile {
    address: HubAddress,
    endpoint: String,
    login: Login,
    /// The commit that the first answer was made from.
    commit: OnceLock<String>,
}

impl HubFile {
    /// Parses `address`, which is read from the hub at `endpoint`.
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

    /// Returns the http(s) address to ask. Once a commit is known, that of the
    /// file in it: a branch may move between two requests.
    pub(super) fn url(&self) -> String {
        let commit = self.commit.get().map(String::as_str);
        self.address.url(&self.endpoint, commit)
    }

    /// Notes the commit that an answer of the hub was made from (`X-Repo-Commit`).
    pub(super) fn note_commit(&self, commit: &str) {
        let is_hex = commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        if (40..=64).contains(&commit.len()) && is_hex {
            let _ = self.commit.set(commit.into());
        }
    }

    /// Returns the address of the file in the commit that is read, if the hub
    /// has said which one that is.
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
