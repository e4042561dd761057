//! Jobs, which are single commits of a repository, and the events that report their
//! stages.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::hub::Repository;
use zstn::display::{escaped, size};
use zstn::{Error, Result};
use zstn_serve::Served;

/// The work on one commit, as stored in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CommitJob {
    /// The repository, such as `OWNER/NAME`.
    pub repo: String,
    /// The branch that contains the commit and to which the packed files are added.
    pub branch: String,
    /// The commit, or the branch if the job is for a plan.
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

impl CommitJob {
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

/// An event of a worker. Its `Display` form is a line for a log.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// A request was answered.
    Request(Served),
    /// A job or one of its files has reached a stage.
    Job(JobEvent),
}

/// A stage of a job or of one of its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// The job is in the queue.
    Queued,
    /// Work on the job has begun.
    Started,
    /// A file was packed, verified and stored.
    Packed,
    /// A packed file from an earlier run was reused.
    Reused,
    /// A file cannot be packed, or would not get smaller.
    Refused,
    /// A commit with the packed files was created.
    Committed,
    /// There was nothing to do.
    Nothing,
    /// The branch has moved to another commit, which is planned again.
    Moved,
    /// The job failed for a transient reason and will be retried.
    Retry,
    /// The job or file failed permanently.
    Failed,
    /// The worker stops and leaves the job in the queue.
    GivenBack,
}

impl Stage {
    /// Returns the stage's name for logs and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Started => "started",
            Self::Packed => "packed",
            Self::Reused => "reused",
            Self::Refused => "refused",
            Self::Committed => "committed",
            Self::Nothing => "nothing",
            Self::Moved => "moved",
            Self::Retry => "retry",
            Self::Failed => "failed",
            Self::GivenBack => "given_back",
        }
    }
}

/// A job or file that has reached a stage. Its `Display` form is a line for a log.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct JobEvent {
    /// The stage that was reached.
    pub stage: Stage,
    /// The repository, or an empty string for an event of the worker itself.
    pub repo: String,
    /// The commit or branch of the job; empty for an event of the worker itself.
    pub revision: String,
    /// The path of the file, for an event of a file.
    pub path: Option<String>,
    /// Length of the original file in bytes, if it was packed.
    pub original_bytes: Option<u64>,
    /// Length of the packed file in bytes.
    pub packed_bytes: Option<u64>,
    /// An explanation, such as the reason of a failure.
    pub detail: Option<String>,
}

impl JobEvent {
    pub(super) fn new(stage: Stage, repo: &str, revision: &str) -> Self {
        Self {
            stage,
            repo: repo.into(),
            revision: revision.into(),
            path: None,
            original_bytes: None,
            packed_bytes: None,
            detail: None,
        }
    }

    pub(super) fn about_worker(stage: Stage, detail: &str) -> Self {
        Self::new(stage, "", "").detail(detail)
    }

    pub(super) fn path(mut self, path: &str) -> Self {
        self.path = Some(path.into());
        self
    }

    pub(super) fn bytes(mut self, original: u64, packed: u64) -> Self {
        self.original_bytes = Some(original);
        self.packed_bytes = Some(packed);
        self
    }

    pub(super) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(served) => served.fmt(f),
            Self::Job(event) => event.fmt(f),
        }
    }
}

impl fmt::Display for JobEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<10}", self.stage.name())?;
        if !self.repo.is_empty() {
            let commit = self.revision.get(..12).unwrap_or(&self.revision);
            write!(f, " {}@{}", escaped(&self.repo), escaped(commit))?;
        }
        if let Some(path) = &self.path {
            write!(f, " {}", escaped(path))?;
        }
        if let (Some(original), Some(packed)) = (self.original_bytes, self.packed_bytes) {
            write!(f, "  {} → {}", size(original), size(packed))?;
        }
        if let Some(detail) = &self.detail {
            write!(f, "  {}", escaped(detail))?;
        }
        Ok(())
    }
}
