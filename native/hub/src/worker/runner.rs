//! Takes jobs from the queue, works on them, and reports their outcomes.

use std::any::Any;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::Metrics;
use super::commit_additions::{Additions, Revision};
use super::queue::{Claim, Queue};
use super::selection::is_packing;
use super::{CommitJob, Event, JobEvent, Stage, Stop, TRAILER, TRAILER_KEY};
use crate::hub::{Hub, ListedFile, NewCommit, Refusal, Repository, is_not_found};
use crate::manifest::Class;
use crate::work::{Failure, Packer, class};
use zstn::{Error, Result};

/// Maximum number of plans for one job. A job is planned again if its branch has moved.
const MAX_PLANS: u32 = 5;

/// The result of a job.
#[derive(Debug)]
pub(super) enum Outcome {
    /// There was nothing to do; contains the reason.
    Nothing(String),
    /// A commit adds the packed files; contains its name.
    Committed(String),
    /// A commit adds some packed files; contains the error that prevented others.
    Partly(Error),
}

pub(super) struct Runner {
    pub(super) hub: Hub,
    pub(super) queue: Arc<Queue>,
    pub(super) packer: Packer,
    pub(super) metrics: Arc<Metrics>,
    pub(super) stop: Stop,
    pub(super) log: Arc<dyn Fn(Event) + Send + Sync>,
}

impl Runner {
    /// Works on jobs until the worker is stopped.
    pub(super) fn work(&self) {
        while !self.stop.is_requested() {
            let worked = match self.queue.claim(&|event| self.tell(event)) {
                Ok(Some(claim)) => self.claimed(claim).map(|()| true),
                Ok(None) => Ok(false),
                Err(error) => Err(error),
            };
            match worked {
                Ok(true) => {}
                Ok(false) => self.queue.wait(),
                Err(error) => {
                    // The folder of the queue cannot be read or written.
                    self.tell(JobEvent::about_worker(Stage::Failed, &error.to_string()));
                    self.queue.wait();
                }
            }
        }
    }

    fn claimed(&self, claim: Claim) -> Result<()> {
        let job = claim.job.clone();
        let event = |stage| JobEvent::new(stage, &job.repo, &job.revision);
        self.tell(event(Stage::Started));
        let worked = catch_unwind(AssertUnwindSafe(|| self.job(&job, None)));
        match worked.unwrap_or_else(|panic| Err(panicked(&*panic))) {
            Ok(Outcome::Nothing(why)) => {
                self.queue.finish(claim, &why)?;
                self.tell(event(Stage::Nothing).detail(why));
            }
            Ok(Outcome::Committed(commit)) => {
                self.queue.finish(claim, &commit)?;
            }
            Err(Failure::Stopped) => {
                self.queue.give_back()?;
                self.tell(event(Stage::GivenBack).detail("the worker ends"));
            }
            Err(Failure::File(why)) => {
                self.queue.fail(claim, &why)?;
                self.tell(event(Stage::Failed).detail(why));
            }
            Ok(Outcome::Partly(error)) | Err(Failure::Error(error)) => {
                let why = error.to_string();
                let wait = match class(&error) {
                    Class::Retry => self.queue.retry(claim, &why)?,
                    Class::Refused => {
                        self.queue.fail(claim, &why)?;
                        None
                    }
                };
                match wait {
                    Some(wait) => {
                        let why = format!("again in {wait} s: {why}");
                        self.tell(event(Stage::Retry).detail(why));
                    }
                    None => self.tell(event(Stage::Failed).detail(why)),
                }
            }
        }
        Ok(())
    }

    /// Works on a job. If `contents` is given, only files with these SHA-256s are
    /// packed.
    pub(super) fn job(
        &self,
        job: &CommitJob,
        contents: Option<&HashSet<String>>,
    ) -> Result<Outcome, Failure> {
        let repository = job.repository()?;
        if self.queue.is_own(&job.revision) {
            return Ok(Outcome::Nothing("a commit of this worker".into()));
        }
        let results = self.queue.results()?;
        for _ in 0..MAX_PLANS {
            let head = self.call(self.hub.commit_of(&repository, &job.branch))?;
            let files = self.call(self.hub.files(&repository, &head))?;
            let before = match &job.before {
                Some(before) => self.files_before(&repository, before)?,
                None => None,
            };
            let is_packing = || self.is_packing(&repository, job, &files, before.as_deref());
            if head == job.revision && is_packing()? {
                return Ok(Outcome::Nothing("the commit of a worker".into()));
            }
            let revision = Revision {
                repository: &repository,
                head: &head,
                results: &results,
                contents,
            };
            let Additions { additions, failure } =
                self.additions(&revision, &files, &before.unwrap_or_default())?;
            if additions.is_empty() {
                return match failure {
                    Some(error) => Err(Failure::Error(error)),
                    None => Ok(Outcome::Nothing("nothing to pack".into())),
                };
            }
            if self.stop.is_requested() {
                return Err(Failure::Stopped);
            }
            let commit = NewCommit {
                branch: &job.branch,
                parent: &head,
                summary: "Add packed weights",
                description: &format!(
                    "Each X.zstn restores X.safetensors of {head} byte for byte, and \
                     model.gguf.zstn restores model.gguf.\n\n{TRAILER}"
                ),
                additions: &additions,
            };
            match self.hub.commit(&repository, &commit) {
                Ok(made) => {
                    self.queue.note_commit(&made)?;
                    let event = JobEvent::new(Stage::Committed, &job.repo, &job.revision);
                    let count = additions
                        .iter()
                        .filter(|a| a.path().ends_with(".zstn"))
                        .count();
                    self.tell(event.detail(format!("{made} with {count} packed files")));
                    return Ok(match failure {
                        Some(error) => Outcome::Partly(error),
                        None => Outcome::Committed(made),
                    });
                }
                Err(moved)
                    if matches!(Refusal::in_error(&moved), Some(Refusal::ParentMoved { .. })) =>
                {
                    let event = JobEvent::new(Stage::Moved, &job.repo, &job.revision);
                    self.tell(event.detail(moved.to_string()));
                }
                Err(error) => return Err(Failure::Error(error)),
            }
        }
        Err(Failure::Error(
            Refusal::ParentMoved {
                repository: job.repo.clone(),
                branch: job.branch.clone(),
            }
            .into(),
        ))
    }

    /// Returns the files of the previous revision, or `None` if it no longer exists.
    fn files_before(
        &self,
        repository: &Repository,
        before: &str,
    ) -> Result<Option<Vec<ListedFile>>, Failure> {
        match self.hub.files(repository, before) {
            Err(error) if is_not_found(&error) => Ok(None),
            files => self.call(files).map(Some),
        }
    }

    /// Returns whether the commit of a job was created by a worker: it only adds packed
    /// files. If the previous files are unknown, the trailer in its message decides.
    /// Otherwise the trailer is not trusted, because an amended commit keeps its
    /// message.
    fn is_packing(
        &self,
        repository: &Repository,
        job: &CommitJob,
        files: &[ListedFile],
        before: Option<&[ListedFile]>,
    ) -> Result<bool, Failure> {
        if let Some(before) = before {
            return Ok(is_packing(files, before));
        }
        let info = match self.hub.commit_info(repository, &job.revision) {
            // Some hubs do not list the history.
            Err(error) if is_not_found(&error) => None,
            info => self.call(info)?,
        };
        Ok(info.is_some_and(|info| {
            let mut lines = info.message.lines().chain(info.title.lines());
            lines.any(|line| line.starts_with(TRAILER_KEY))
        }))
    }

    /// Marks an error of the hub as an error of the job, even if it would be a file's
    /// error elsewhere.
    pub(super) fn call<T>(&self, result: Result<T>) -> Result<T, Failure> {
        result.map_err(Failure::Error)
    }

    pub(super) fn tell(&self, event: JobEvent) {
        self.metrics.count_stage(event.stage);
        (self.log)(Event::Job(event));
    }
}

/// Returns the failure of a job whose work panicked. It is retried, because the panic
/// may have been caused by a lack of memory.
fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let detail = format!("a defect of zstn: {}", text.unwrap_or("a panic"));
    Failure::Error(Error::io("do the job", std::io::Error::other(detail)))
}
