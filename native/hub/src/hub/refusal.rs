//! Errors that a hub reports.

use std::fmt;

use http::{HeaderMap, StatusCode};

use super::Repository;

impl Refusal {
    /// Returns the refusal behind an error of this crate, if it is one.
    #[must_use]
    pub fn in_error(error: &zstn::Error) -> Option<&Self> {
        match error {
            zstn::Error::Hub(refusal) => refusal.downcast_ref(),
            _ => None,
        }
    }
}

/// Returns whether a hub answered that it has no such repository, revision or file.
pub(crate) fn is_not_found(error: &zstn::Error) -> bool {
    matches!(Refusal::in_error(error), Some(Refusal::NotFound { .. }))
}

impl From<Refusal> for zstn::Error {
    fn from(refusal: Refusal) -> Self {
        Self::Hub(Box::new(refusal))
    }
}

/// The permission that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Permission to read a repository.
    Read,
    /// Permission to write to a repository.
    Write,
}

impl Permission {
    /// Returns the permission that a request with this method needs.
    pub(super) fn of_method(method: &str) -> Self {
        match method {
            "GET" | "HEAD" => Self::Read,
            _ => Self::Write,
        }
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write to",
        })
    }
}

/// The reason why a hub refuses a request. The message states what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The request needs a token, and none is set.
    #[error(
        "{repository}: the hub requires a login; set HF_TOKEN to a token that may {permission} \
         the repository"
    )]
    NoToken {
        /// The repository.
        repository: String,
        /// The missing permission.
        permission: Permission,
    },
    /// The hub rejects the token (status 401).
    #[error(
        "{repository}: the hub does not accept the token, or there is no such repository; check \
         the name, and make another token if it has expired"
    )]
    Unauthorized {
        /// The repository.
        repository: String,
    },
    /// The token lacks a permission (status 403).
    #[error(
        "{repository}: the token may not do this; give it the permission to {permission} the \
         repository{said}"
    )]
    Forbidden {
        /// The repository.
        repository: String,
        /// The missing permission.
        permission: Permission,
        /// The hub's explanation in parentheses, or an empty string.
        said: String,
    },
    /// The repository, revision or file does not exist or is hidden (status 404).
    #[error(
        "{repository}: the hub has no such repository, revision or file, or the token may not \
         see it{said}"
    )]
    NotFound {
        /// The repository.
        repository: String,
        /// The hub's explanation in parentheses, or an empty string.
        said: String,
    },
    /// The repository is gated.
    #[error(
        "{repository} is gated; accept its terms on its page with the account that the token \
         belongs to"
    )]
    Gated {
        /// The repository.
        repository: String,
    },
    /// The branch is at another commit than the expected parent.
    #[error("{repository}: {branch} received another commit; plan again on it")]
    ParentMoved {
        /// The repository.
        repository: String,
        /// The branch.
        branch: String,
    },
    /// The hub rejects a large file.
    #[error("{repository}: the hub does not accept the object {oid}: {said}")]
    Object {
        /// The repository.
        repository: String,
        /// SHA-256 of the file.
        oid: String,
        /// The hub's explanation.
        said: String,
    },
}

impl Refusal {
    /// Returns the refusal for an error answer, or `None` for statuses that are not
    /// refusals.
    pub(super) fn of(
        repository: &Repository,
        status: StatusCode,
        headers: &HeaderMap,
        has_token: bool,
        permission: Permission,
    ) -> Option<Self> {
        let header = |name: &str| headers.get(name)?.to_str().ok();
        let said = header("x-error-message").filter(|said| !said.is_empty());
        let said = said.map_or_else(String::new, |said| format!(" (it says: {said})"));
        let repository = repository.to_string();
        if header("x-error-code") == Some("GatedRepo") {
            return Some(Self::Gated { repository });
        }
        Some(match status.as_u16() {
            401 if has_token => Self::Unauthorized { repository },
            401 => Self::NoToken {
                repository,
                permission,
            },
            403 => Self::Forbidden {
                repository,
                permission,
                said,
            },
            404 => Self::NotFound { repository, said },
            _ => return None,
        })
    }
}
