//! The work on jobs.

use std::collections::HashSet;
use std::sync::Arc;

use super::failure::{Failure, class};
use super::metrics::Metrics;
use super::packer::Packer;
use super::plan::{is_packing, packed_path, plan};
use super::queue::{Claim, Queue};
use super::{Event, Job, JobEvent, Stage, Stop, TRAILER, TRAILER_KEY};
use crate::hub::{Addition, Hub, ListedFile, NewCommit, Refusal, Repository};
use crate::manifest::{Class, Done, Failed, Results};
use crate::shards::packed_index_of;
use crate::{Error, Result};

/// Commits that are planned on for one job, since others pushed meanwhile.
const MAX_PLANS: u32 = 5;
/// The longest index or `.gitattributes` that is read, in bytes.
const MAX_SMALL_BYTES: u64 = 8 << 20;
const ATTRIBUTES: &str = ".gitattributes";
const ATTRIBUTES_LINE: &str = "*.zstn filter=lfs diff=lfs merge=lfs -text";

/// What became of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// There was nothing to do, for this reason.
    Nothing(String),
    /// This commit has the packed files.
    Committed(String),
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
    /// Works on jobs until it is asked to end.
    pub(super) fn work(&self) {
        while !self.stop.is_requested() {
            let worked = match self.queue.claim() {
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
        match self.job(&job, None) {
            Ok(Outcome::Nothing(why)) => {
                self.queue.finish(claim, &why)?;
                self.tell(event(Stage::Nothing).detail(why));
            }
            Ok(Outcome::Committed(commit)) => {
                self.queue.finish(claim, &commit)?;
            }
            Err(Failure::Stopped) => {
                self.tell(event(Stage::GivenBack).detail("the worker ends"));
            }
            Err(Failure::File(why)) => {
                self.queue.fail(claim, &why)?;
                self.tell(event(Stage::Failed).detail(why));
            }
            Err(Failure::Error(error)) => {
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

    /// Does a job, of whose files only those with `contents` if they are given.
    pub(super) fn job(
        &self,
        job: &Job,
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
                None => Vec::new(),
            };
            if head == job.revision && self.is_packing(&repository, job, &files, &before)? {
                return Ok(Outcome::Nothing("the commit of a worker".into()));
            }
            let revision = Revision {
                repository: &repository,
                head: &head,
                results: &results,
                contents,
            };
            let additions = self.additions(&revision, &files, &before)?;
            if additions.is_empty() {
                return Ok(Outcome::Nothing("nothing to pack".into()));
            }
            if self.stop.is_requested() {
                return Err(Failure::Stopped);
            }
            let commit = NewCommit {
                branch: &job.branch,
                parent: &head,
                summary: "Add packed weights",
                description: &format!(
                    "Each X.zstn restores X.safetensors of {head} byte for byte.\n\n{TRAILER}"
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
                    return Ok(Outcome::Committed(made));
                }
                Err(Error::Hub(moved @ Refusal::ParentMoved { .. })) => {
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

    /// Returns the files of the revision before; none if that is gone.
    fn files_before(
        &self,
        repository: &Repository,
        before: &str,
    ) -> Result<Vec<ListedFile>, Failure> {
        match self.hub.files(repository, before) {
            Err(Error::Hub(Refusal::NotFound { .. })) => Ok(Vec::new()),
            files => self.call(files),
        }
    }

    /// Returns whether the commit of a job is that of a worker: it says so, or adds
    /// nothing but packed files.
    fn is_packing(
        &self,
        repository: &Repository,
        job: &Job,
        files: &[ListedFile],
        before: &[ListedFile],
    ) -> Result<bool, Failure> {
        if job.before.is_some() && is_packing(files, before) {
            return Ok(true);
        }
        let info = match self.hub.commit_info(repository, &job.revision) {
            // Not every hub has a history.
            Err(Error::Hub(Refusal::NotFound { .. })) => None,
            info => self.call(info)?,
        };
        Ok(info.is_some_and(|info| {
            let mut lines = info.message.lines().chain(info.title.lines());
            lines.any(|line| line.starts_with(TRAILER_KEY))
        }))
    }

    /// Packs and uploads what a revision lacks, one file at a time, and returns what
    /// to commit.
    fn additions(
        &self,
        revision: &Revision<'_>,
        files: &[ListedFile],
        before: &[ListedFile],
    ) -> Result<Vec<Addition>, Failure> {
        let plan = plan(files, before);
        let mut additions = Vec::new();
        let mut refused = HashSet::new();
        for file in &plan.files {
            if self.stop.is_requested() {
                return Err(Failure::Stopped);
            }
            let chosen = match (revision.contents, &file.sha256) {
                (None, _) => true,
                (Some(contents), Some(sha256)) => contents.contains(sha256),
                (Some(_), None) => false,
            };
            let Some(path) = packed_path(&file.path).filter(|_| chosen) else {
                continue;
            };
            match self.file(revision, file)? {
                Some(done) => additions.push(Addition::Large {
                    path,
                    sha256: done.packed_sha256,
                    len_bytes: done.packed_bytes,
                }),
                None => drop(refused.insert(path)),
            }
        }
        let there: HashSet<&str> = files.iter().map(|file| &*file.path).collect();
        let added: HashSet<String> = additions.iter().map(|a| a.path().to_owned()).collect();
        let has =
            |path: &str| (there.contains(path) || added.contains(path)) && !refused.contains(path);
        for index in &plan.indices {
            additions.extend(self.index(revision, index, &has)?);
        }
        if additions
            .iter()
            .any(|addition| matches!(addition, Addition::Large { .. }))
        {
            additions.extend(self.attributes(revision, &there)?);
        }
        Ok(additions)
    }

    /// Packs and uploads a file; `None` if it is refused.
    fn file(&self, revision: &Revision<'_>, file: &ListedFile) -> Result<Option<Done>, Failure> {
        let (row, bytes) = self.packer.row(revision.repository, revision.head, file)?;
        let event = |stage| JobEvent::new(stage, &row.repo, &row.revision).path(&row.path);
        if let Some(done) = revision.results.done(&row.key).map_err(Failure::Error)? {
            let (sha256, len_bytes) = (&done.packed_sha256, done.packed_bytes);
            let has = self.hub.has_object(revision.repository, sha256, len_bytes);
            if self.call(has)? {
                self.tell(event(Stage::Reused).bytes(row.len_bytes, len_bytes));
                return Ok(Some(done));
            }
        }
        let failed = revision.results.failed(&row.key).map_err(Failure::Error)?;
        if let Some(failed) = failed.filter(|failed| failed.class == Class::Refused) {
            self.tell(event(Stage::Refused).detail(failed.reason));
            return Ok(None);
        }
        let packed = match self.packer.pack(&row, bytes) {
            Ok(packed) => packed,
            Err(Failure::File(reason)) => {
                let failed = Failed::new(row.clone(), Class::Refused, reason.clone());
                revision
                    .results
                    .put_failed(&failed)
                    .map_err(Failure::Error)?;
                self.tell(event(Stage::Refused).detail(reason));
                return Ok(None);
            }
            Err(failure) => return Err(failure),
        };
        let done = packed.done.clone();
        let uploaded = self.hub.upload(
            revision.repository,
            &packed.path,
            &done.packed_sha256,
            done.packed_bytes,
        );
        self.call(uploaded)?;
        revision.results.put_done(&done).map_err(Failure::Error)?;
        self.metrics.count_packed(row.len_bytes, done.packed_bytes);
        self.tell(event(Stage::Packed).bytes(row.len_bytes, done.packed_bytes));
        Ok(Some(done))
    }

    /// Returns the index of packed shards for one of plain ones, if all of them are
    /// packed.
    fn index(
        &self,
        revision: &Revision<'_>,
        path: &str,
        has: &dyn Fn(&str) -> bool,
    ) -> Result<Option<Addition>, Failure> {
        let Some(packed) = packed_path(path) else {
            return Ok(None);
        };
        let text = self
            .hub
            .read_small(revision.repository, revision.head, path, MAX_SMALL_BYTES);
        let folder = path
            .rsplit_once('/')
            .map(|(folder, _)| format!("{folder}/"));
        let folder = folder.unwrap_or_default();
        let event = JobEvent::new(
            Stage::Refused,
            &revision.repository.to_string(),
            revision.head,
        );
        let made = text.map_err(Failure::from).and_then(|text| {
            let (text, shards) = packed_index_of(path, text)?;
            let missing = shards
                .iter()
                .find(|shard| !has(&format!("{folder}{shard}")));
            match missing {
                None => Ok(text),
                Some(shard) => Err(Failure::File(format!("{folder}{shard} is not there"))),
            }
        });
        match made {
            Ok(bytes) => Ok(Some(Addition::Small {
                path: packed,
                bytes,
            })),
            Err(Failure::File(reason)) => {
                self.tell(event.path(path).detail(reason));
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Returns `.gitattributes` with a line that has git keep packed files as large
    /// ones, unless it has such a line.
    fn attributes(
        &self,
        revision: &Revision<'_>,
        there: &HashSet<&str>,
    ) -> Result<Option<Addition>, Failure> {
        let mut bytes = match there.contains(ATTRIBUTES) {
            true => {
                let (repository, head) = (revision.repository, revision.head);
                let read = self
                    .hub
                    .read_small(repository, head, ATTRIBUTES, MAX_SMALL_BYTES);
                self.call(read)?
            }
            false => Vec::new(),
        };
        let mut lines = bytes.split(|byte| *byte == b'\n');
        if lines.any(|line| line.starts_with(b"*.zstn ")) {
            return Ok(None);
        }
        if !bytes.is_empty() && !bytes.ends_with(b"\n") {
            bytes.push(b'\n');
        }
        bytes.extend_from_slice(ATTRIBUTES_LINE.as_bytes());
        bytes.push(b'\n');
        Ok(Some(Addition::Small {
            path: ATTRIBUTES.into(),
            bytes,
        }))
    }

    /// Takes an error of the hub for one of the job, never of a file.
    fn call<T>(&self, result: Result<T>) -> Result<T, Failure> {
        result.map_err(Failure::Error)
    }

    pub(super) fn tell(&self, event: JobEvent) {
        self.metrics.count_stage(event.stage);
        (self.log)(Event::Job(event));
    }
}

/// The revision that is worked on.
struct Revision<'a> {
    repository: &'a Repository,
    head: &'a str,
    results: &'a Results,
    contents: Option<&'a HashSet<String>>,
}
