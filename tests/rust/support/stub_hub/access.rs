//! Access tokens and the permissions that they grant.

use std::collections::BTreeMap;

use axum::http::{HeaderMap, header};

use super::answer::Refusal;
use super::repository::Repository;

/// The permissions of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Reads and writes everything.
    Write,
    /// Reads all repositories except gated ones.
    Read,
}

/// All tokens that a hub accepts.
#[derive(Debug)]
pub(super) struct Access {
    tokens: BTreeMap<String, Role>,
}

/// The sender of a request, identified by its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Visitor {
    role: Option<Role>,
    /// True if the hub has tokens at all.
    is_closed: bool,
}

impl Access {
    pub(super) fn new(tokens: &[(String, Role)]) -> Self {
        Self {
            tokens: tokens.iter().cloned().collect(),
        }
    }

    /// Identifies the sender of a request from its headers.
    ///
    /// # Errors
    /// If the token is unknown.
    pub(super) fn visitor(&self, headers: &HeaderMap) -> Result<Visitor, Refusal> {
        let is_closed = !self.tokens.is_empty();
        let token = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.strip_prefix("Bearer "));
        let role = match token {
            _ if !is_closed => Some(Role::Write),
            None => None,
            Some(token) => match self.tokens.get(token) {
                Some(role) => Some(*role),
                // Clients compare this message literally.
                None => {
                    let message = "Invalid credentials in Authorization header";
                    return Err(Refusal::new(401, "", message));
                }
            },
        };
        Ok(Visitor { role, is_closed })
    }
}

impl Visitor {
    /// Returns the role of the token; `None` for requests without a token.
    pub(super) fn role(self) -> Option<Role> {
        self.role
    }

    /// Refuses visitors who may not write.
    pub(super) fn may_write(self) -> Result<(), Refusal> {
        match self.role {
            Some(Role::Write) => Ok(()),
            Some(Role::Read) => Err(Refusal::new(
                403,
                "",
                "Forbidden: this token may only read; a token with write access is needed.",
            )),
            None => Err(Refusal::new(401, "", "Invalid username or password.")),
        }
    }

    /// Refuses visitors who may not know that a repository exists. On a hub with
    /// tokens, a visitor without one gets the same answer for private and missing
    /// repositories.
    pub(super) fn may_see(self, repository: Option<&Repository>) -> Result<&Repository, Refusal> {
        match repository {
            Some(found) if !found.private || self.role.is_some() => Ok(found),
            None if !self.is_closed || self.role.is_some() => Err(Refusal::repo_not_found()),
            _ => Err(Refusal::new(
                401,
                "RepoNotFound",
                "Invalid username or password.",
            )),
        }
    }

    /// Refuses visitors who may not read the files of a repository.
    pub(super) fn may_read(self, repository: &Repository) -> Result<(), Refusal> {
        let name = &repository.id.name;
        match self.role {
            _ if !repository.gated => Ok(()),
            Some(Role::Write) => Ok(()),
            Some(Role::Read) => Err(Refusal::new(
                403,
                "GatedRepo",
                format!("{name} is gated and your account has no access; ask its authors."),
            )),
            None => Err(Refusal::new(
                401,
                "GatedRepo",
                format!("{name} is gated; log in with an account that has access."),
            )),
        }
    }
}
