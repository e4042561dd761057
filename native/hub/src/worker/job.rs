//! A job, which is one commit of a repository.

use serde::{Deserialize, Serialize};

use crate::hub::Repository;
use zstn::{Error, Result};

/// The work on one commit, as stored in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Job {
    /// The repository, such as `OWNER/NAME`.
    pub repo: String,
    /// The branch that contains the commit and to which the packed files are added.
    pub branch: String,
    /// The commit.
    pub revision: String,
    /// The previous commit of the branch.
    #[serde(default)]
    pub before: Option<String>,
    /// Number of attempts that have begun, including the current one.
    #[serde(default)]
    pub attempts: u32,
    /// Time of the next attempt, in seconds since 1970.
    #[serde(default)]
    pub not_before: u64,
    /// The result, or the error of the last attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

impl Job {
    pub(super) fn new(repository: &Repository, branch: &str, revision: &str) -> Self {
        Self {
            repo: repository.to_string(),
            branch: branch.into(),
            revision: revision.into(),
            before: None,
            attempts: 0,
            not_before: 0,
            outcome: None,
        }
    }

    /// Parses the name of the repository.
    ///
    /// # Errors
    /// [`Error::Usage`] if the name is invalid, which can happen in jobs written by
    /// other programs.
    pub fn repository(&self) -> Result<Repository> {
        self.repo.parse()
    }

    /// Returns the name of the job's file in the queue. All notifications of this
    /// commit on this branch have the same name. Other branches than `main` are hashed,
    /// because they may contain any characters.
    pub(super) fn key(&self) -> Result<String, Error> {
        let repository = self.repository()?.file_name();
        let revision = &self.revision;
        Ok(match &*self.branch {
            "main" => format!("{repository}@{revision}"),
            branch => {
                let branch = crate::manifest::hex_digest(branch.as_bytes());
                format!("{repository}@{revision}@{}", &branch[..16])
            }
        })
    }
}
