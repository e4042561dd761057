//! A job: one commit of a repository.

use serde::{Deserialize, Serialize};

use crate::hub::Repository;
use zstn::{Error, Result};

/// The work on one commit, as it is in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Job {
    /// Repository: `OWNER/NAME`.
    pub repo: String,
    /// Branch that has the commit, and gets the packed files.
    pub branch: String,
    /// The commit.
    pub revision: String,
    /// The commit that the branch had before.
    #[serde(default)]
    pub before: Option<String>,
    /// Attempts that have begun and did not succeed, with the one under way.
    #[serde(default)]
    pub attempts: u32,
    /// No attempt before this time, in seconds since 1970.
    #[serde(default)]
    pub not_before: u64,
    /// The result, or the reason why the last attempt failed.
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

    /// Returns the repository.
    ///
    /// # Errors
    /// [`Error::Usage`] for a job that somebody else wrote.
    pub fn repository(&self) -> Result<Repository> {
        self.repo.parse()
    }

    /// Returns the name of its file in the queue, the same for every notification of
    /// this commit on this branch. Branches may have any characters.
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
