//! The lines of the log.

use std::fmt;

use zstn::display::{escaped, size};
use zstn_serve::Served;

/// Something that happened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event {
    /// A request was answered.
    Request(Served),
    /// A job has come further.
    Job(JobEvent),
}

/// The progress of a job or of one of its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// It is in the queue.
    Queued,
    /// Work begins.
    Started,
    /// A file was packed and verified, and is where it belongs.
    Packed,
    /// A file had been packed before.
    Reused,
    /// A file cannot be packed, or not to advantage.
    Refused,
    /// A commit with the packed files was made.
    Committed,
    /// There was nothing to do.
    Nothing,
    /// The branch has another commit meanwhile, which is planned anew.
    Moved,
    /// It failed for a reason that may pass.
    Retry,
    /// It failed.
    Failed,
    /// The worker ends, and leaves the rest to the next one.
    GivenBack,
}

impl Stage {
    /// Returns its name, for programs.
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

/// A job that has come further. It displays as a line of a log.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct JobEvent {
    /// The progress.
    pub stage: Stage,
    /// The repository; empty if it is about the worker.
    pub repo: String,
    /// The commit.
    pub revision: String,
    /// The file, if it is about one.
    pub path: Option<String>,
    /// Length of the file in bytes, if it was packed.
    pub original_bytes: Option<u64>,
    /// Length of the packed file in bytes.
    pub packed_bytes: Option<u64>,
    /// A sentence about it, such as the reason of a failure.
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
