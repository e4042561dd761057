//! A file in a hub, read from the commit that the first response names, and the hub's
//! reasons for refusing it.

use std::fmt;
use std::sync::OnceLock;

use http::{HeaderMap, StatusCode};

use super::{HubAddress, Login};
use crate::Result;

/// A file in a hub. The first response determines the commit from which it is read.
#[derive(Debug)]
pub(in super::super) struct HubFile {
    address: HubAddress,
    endpoint: String,
    login: Login,
    /// The commit that the first response came from.
    commit: OnceLock<String>,
}

impl HubFile {
    /// Parses `address`, which refers to the hub at `endpoint`.
    pub(in super::super) fn new(address: &str, endpoint: String, login: Login) -> Result<Self> {
        Ok(Self {
            address: HubAddress::parse(address)?,
            endpoint,
            login,
            commit: OnceLock::new(),
        })
    }

    pub(in super::super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(in super::super) fn login(&self) -> &Login {
        &self.login
    }

    /// Returns the http(s) address to request. Once the commit is known, this is the
    /// address of the file in that commit, because a branch may move between two
    /// requests.
    pub(in super::super) fn url(&self) -> String {
        let commit = self.commit.get().map(String::as_str);
        self.address.url(&self.endpoint, commit)
    }

    /// Records the commit that a response of the hub came from (`X-Repo-Commit`).
    pub(in super::super) fn note_commit(&self, commit: &str) {
        let is_hex = commit.bytes().all(|byte| byte.is_ascii_hexdigit());
        if (40..=64).contains(&commit.len()) && is_hex {
            let _ = self.commit.set(commit.into());
        }
    }

    /// Returns the address of the file in the commit that is read, if the hub has
    /// reported that commit.
    pub(in super::super) fn pinned(&self) -> Option<String> {
        let commit = self.commit.get()?;
        Some(self.address.at(commit).to_string())
    }

    /// Returns the text to add to the status of a response: the reason that the hub
    /// states (`X-Error-Code`, `X-Error-Message`), and what the user can do. `None` if
    /// the hub states no known reason.
    pub(in super::super) fn advice(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Option<String> {
        let header = |name: &str| headers.get(name)?.to_str().ok();
        let message = header("x-error-message").unwrap_or_default();
        let (repository, revision) = (self.address.repository(), self.address.revision());
        let page = self.address.page(&self.endpoint);
        let has_token = self.login.token().is_some();
        let advice = match (header("x-error-code"), status.as_u16()) {
            (Some("EntryNotFound"), _) => {
                format!("; there is no such file in {repository} at {revision}, check its path")
            }
            (Some("RevisionNotFound"), _) => {
                format!("; {repository} has no branch, tag or commit {revision}")
            }
            (Some("GatedRepo"), _) if has_token => format!(
                "; {repository} is gated: accept its terms at {page} with the account that the \
                 token belongs to, and make sure that the token may read gated repositories"
            ),
            (Some("GatedRepo"), _) => format!(
                "; {repository} is gated: accept its terms at {page}, {}",
                self.log_in()
            ),
            _ if message.starts_with("Invalid credentials") => format!(
                "; the hub does not accept the token, which may have expired: make another one at \
                 {}/settings/tokens and {}",
                self.endpoint,
                self.log_in()
            ),
            _ if message.starts_with("Access to this resource is disabled") => {
                format!("; the hub has disabled access to {repository}")
            }
            (Some("RepoNotFound"), _) | (None, 401) if has_token => format!(
                "; there is no repository {repository}, or the token may not read it: check the \
                 name, and the token's permissions at {}/settings/tokens",
                self.endpoint
            ),
            (Some("RepoNotFound"), _) | (None, 401) => format!(
                "; there is no repository {repository}, or it is private: check the name, {}",
                self.log_in()
            ),
            (_, 403) if !message.is_empty() => format!("; the hub says: {message}"),
            _ => return None,
        };
        Some(advice)
    }

    /// Returns the advice for logging in.
    fn log_in(&self) -> &'static str {
        match self.login {
            Login::Disabled => {
                "then unset HF_HUB_DISABLE_IMPLICIT_TOKEN, which keeps the token from being sent"
            }
            Login::Token(_) => "log in with it by `hf auth login`, or set HF_TOKEN",
            Login::None => "then log in by `hf auth login`, or set HF_TOKEN",
        }
    }
}

impl fmt::Display for HubFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}
