//! Explains a hub's refusals to the user.

use ureq::http::{HeaderMap, StatusCode};

use super::{HubFile, Login};

impl HubFile {
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
