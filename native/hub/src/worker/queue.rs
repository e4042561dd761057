//! The queue: a file per job, in folders that give the job's state.
//!
//! | `jobs/queued/KEY.json` | to do or in progress |
//! | `jobs/finished/KEY.json` | done; the same notification adds no job |
//! | `jobs/failed/KEY.json` | given up; the same notification starts the job again |
//! | `locks/REPOSITORY` | locked while a worker works on the repository |
//! | `commits/COMMIT` | created by a worker of this queue |
//!
//! A job is removed from `queued` only after it has been written to one of the other
//! folders, and its lock ends with the process. So a killed worker neither loses a job
//! nor blocks it.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{CommitJob, JobEvent, Stage};
use crate::hub::{Repository, is_commit};
use crate::lock::Lock;
use crate::manifest::{Results, write_json};
use zstn::internals::regular;
use zstn::source::HttpOptions;
use zstn::{Error, Location, Result};

/// Interval between two checks of the folder for jobs of other processes.
const POLL: Duration = Duration::from_secs(1);
/// Delay before the second attempt, which doubles with each attempt, and its maximum.
const FIRST_WAIT_SECONDS: u64 = 5;
const MAX_WAIT_SECONDS: u64 = 3600;
/// Maximum number of attempts of a job.
const MAX_ATTEMPTS: u32 = 12;

/// A queue in a folder.
#[derive(Debug)]
pub(super) struct Queue {
    folder: PathBuf,
    /// True if there may be a new job.
    news: Mutex<bool>,
    told: Condvar,
    /// Invalid entries that have been logged already.
    bad: Mutex<HashSet<PathBuf>>,
    /// The job in progress, with its key, as it was before this attempt.
    under_way: Mutex<Option<(String, CommitJob)>>,
}

/// The result of adding a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queued {
    /// The job was added.
    New,
    /// The job is already in the queue or finished.
    Known,
}

/// A locked job, on which no other worker works.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) job: CommitJob,
    key: String,
    _lock: Lock,
}

impl Queue {
    pub(super) fn open(folder: &Path) -> Result<Self> {
        for name in [
            "jobs/queued",
            "jobs/finished",
            "jobs/failed",
            "locks",
            "commits",
        ] {
            let path = folder.join(name);
            fs::create_dir_all(&path).map_err(Error::file("make the folder", &path))?;
        }
        Ok(Self {
            folder: folder.into(),
            news: Mutex::new(true),
            told: Condvar::new(),
            bad: Mutex::default(),
            under_way: Mutex::default(),
        })
    }

    fn path(&self, folder: &str, key: &str) -> PathBuf {
        self.folder
            .join("jobs")
            .join(folder)
            .join(format!("{key}.json"))
    }

    /// Adds a job unless it is in the queue or finished.
    pub(super) fn add(&self, job: &CommitJob) -> Result<Queued> {
        let key = job.key()?;
        if self.is_finished(&key, job) {
            return Ok(Queued::Known);
        }
        let is_new = write(&self.path("queued", &key), job, false)?;
        if is_new {
            // The new job replaces a failed one. If a worker is giving the job up at
            // this moment, it is still in `queued`, so it is not new.
            let _ = fs::remove_file(self.path("failed", &key));
        }
        self.wake();
        Ok(if is_new { Queued::New } else { Queued::Known })
    }

    /// Makes [`Queue::wait`] return.
    pub(super) fn wake(&self) {
        *self.news.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.told.notify_all();
    }

    /// Waits until there may be a job.
    pub(super) fn wait(&self) {
        let news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.told.wait_timeout_while(news, POLL, |news| !*news);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }

    /// Returns the number of jobs in the queue.
    pub(super) fn len(&self) -> usize {
        let folder = fs::read_dir(self.folder.join("jobs/queued"));
        folder.map_or(0, |entries| entries.filter(is_entry).count())
    }

    /// Takes the oldest job that is due and not locked. The attempt is counted before
    /// the work begins, so that a job that crashes the process is eventually given up.
    /// Invalid entries are skipped and passed to `log` once.
    pub(super) fn claim(&self, log: &dyn Fn(JobEvent)) -> Result<Option<Claim>> {
        let folder = self.folder.join("jobs/queued");
        let entries = fs::read_dir(&folder).map_err(Error::file("read the folder", &folder))?;
        let mut found: Vec<(SystemTime, PathBuf)> = entries
            .filter(is_entry)
            .filter_map(|entry| {
                let entry = entry.ok()?;
                Some((entry.metadata().ok()?.modified().ok()?, entry.path()))
            })
            .collect();
        found.sort();
        for (_, path) in found {
            let mut claim = match self.claim_entry(&path) {
                Ok(Some(claim)) => claim,
                Ok(None) => continue,
                Err(error) => {
                    let mut bad = self.bad.lock().unwrap_or_else(PoisonError::into_inner);
                    if bad.insert(path) {
                        log(JobEvent::about_worker(Stage::Failed, &error.to_string()));
                    }
                    continue;
                }
            };
            if claim.job.attempts >= MAX_ATTEMPTS {
                let event = JobEvent::new(Stage::Failed, &claim.job.repo, &claim.job.revision);
                let reason = format!("workers ended {MAX_ATTEMPTS} times while they worked on it");
                self.fail(claim, &reason)?;
                log(event.detail(reason));
                continue;
            }
            let under_way = Some((claim.key.clone(), claim.job.clone()));
            *self.under_way() = under_way;
            claim.job.attempts += 1;
            // Delay in case the process crashes. There is none after the first crash.
            claim.job.not_before = match claim.job.attempts {
                1 => 0,
                attempts => now_seconds() + wait_seconds(attempts - 1),
            };
            write(&self.path("queued", &claim.key), &claim.job, true)?;
            return Ok(Some(claim));
        }
        Ok(None)
    }

    /// Takes the job in a file if it is due and not locked.
    fn claim_entry(&self, path: &Path) -> Result<Option<Claim>> {
        // Another worker may just have finished the job.
        let Some(job) = read(path)? else {
            return Ok(None);
        };
        if job.not_before > now_seconds() {
            return Ok(None);
        }
        let Some(lock) = self.lock(&job.repository()?)? else {
            return Ok(None);
        };
        // Reads the job again under the lock, where no other worker can change it.
        let Some(job) = read(path)? else {
            return Ok(None);
        };
        let key = job.key()?;
        if self.path("queued", &key) != path {
            let path = path.display();
            let detail = format!("{path} should be called {key}.json; rename or remove it");
            return Err(Error::Usage(detail));
        }
        if job.not_before > now_seconds() {
            return Ok(None);
        }
        if self.is_finished(&key, &job) {
            remove(path)?;
            return Ok(None);
        }
        Ok(Some(Claim {
            job,
            key,
            _lock: lock,
        }))
    }

    /// Returns whether this push has been handled. A push of the same commit with
    /// another previous commit is a new one: the branch was reset to this commit, which
    /// removed the worker's commit.
    fn is_finished(&self, key: &str, job: &CommitJob) -> bool {
        let finished = read(&self.path("finished", key)).ok().flatten();
        finished.is_some_and(|finished| job.before.is_none() || finished.before == job.before)
    }

    fn under_way(&self) -> MutexGuard<'_, Option<(String, CommitJob)>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Restores the job in progress to its state before the attempt. Stopping the
    /// worker does not count as a failed attempt.
    pub(super) fn give_back(&self) -> Result<()> {
        if let Some((key, job)) = &*self.under_way() {
            write(&self.path("queued", key), job, true)?;
        }
        Ok(())
    }

    /// Locks a repository, or returns `None` if another worker has locked it.
    pub(super) fn lock(&self, repository: &Repository) -> Result<Option<Lock>> {
        Lock::take(&self.folder.join("locks").join(repository.file_name()))
    }

    /// Moves a job to `finished`.
    pub(super) fn finish(&self, mut claim: Claim, outcome: &str) -> Result<()> {
        *self.under_way() = None;
        claim.job.outcome = Some(outcome.into());
        write(&self.path("finished", &claim.key), &claim.job, true)?;
        remove(&self.path("queued", &claim.key))
    }

    /// Moves a job to `failed`.
    pub(super) fn fail(&self, mut claim: Claim, reason: &str) -> Result<()> {
        *self.under_way() = None;
        claim.job.outcome = Some(reason.into());
        write(&self.path("failed", &claim.key), &claim.job, true)?;
        remove(&self.path("queued", &claim.key))
    }

    /// Schedules the next attempt of a job. Returns the delay in seconds, or `None` if
    /// the job has failed too often and is given up.
    pub(super) fn retry(&self, mut claim: Claim, reason: &str) -> Result<Option<u64>> {
        if claim.job.attempts >= MAX_ATTEMPTS {
            self.fail(claim, reason)?;
            return Ok(None);
        }
        *self.under_way() = None;
        let wait = wait_seconds(claim.job.attempts);
        claim.job.not_before = now_seconds() + wait;
        claim.job.outcome = Some(reason.into());
        write(&self.path("queued", &claim.key), &claim.job, true)?;
        Ok(Some(wait))
    }

    /// Returns the results of the files of all jobs.
    pub(super) fn results(&self) -> Result<Results> {
        let folder = Location::from(self.folder.join("results"));
        Results::open(&folder, &HttpOptions::default())
    }

    /// Records a commit that this worker has created.
    pub(super) fn note_commit(&self, commit: &str) -> Result<()> {
        let path = self.folder.join("commits").join(commit);
        fs::write(&path, b"").map_err(Error::file("write", &path))
    }

    /// Returns whether a worker of this queue has created a commit.
    pub(super) fn is_own(&self, commit: &str) -> bool {
        is_commit(commit) && self.folder.join("commits").join(commit).exists()
    }
}

/// Returns the delay in seconds after `attempts` failed attempts.
fn wait_seconds(attempts: u32) -> u64 {
    let doublings = attempts.clamp(1, MAX_ATTEMPTS) - 1;
    (FIRST_WAIT_SECONDS << doublings).min(MAX_WAIT_SECONDS)
}

/// Returns whether a file is a job rather than an unfinished file.
fn is_entry(entry: &std::io::Result<fs::DirEntry>) -> bool {
    entry.as_ref().is_ok_and(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        !name.starts_with('.') && name.ends_with(".json")
    })
}

fn write(path: &Path, job: &CommitJob, replace: bool) -> Result<bool> {
    write_json(&Location::from(path), job, replace, &HttpOptions::default())
}

fn read(path: &Path) -> Result<Option<CommitJob>> {
    // Opening a named pipe would block until a writer appears.
    let is_special = |file: fs::Metadata| !file.is_file() && !file.is_dir();
    if fs::metadata(path).is_ok_and(is_special) {
        let detail = format!("{} is not a regular file; remove it", path.display());
        return Err(Error::Usage(detail));
    }
    let bytes = match regular::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::file("read", path)(error)),
    };
    let job = serde_json::from_slice(&bytes).map_err(|error| {
        let detail = format!("{} is not a job: {error}; remove it", path.display());
        Error::Usage(detail)
    })?;
    Ok(Some(job))
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::file("remove", path)(error))
        }
        _ => Ok(()),
    }
}

fn now_seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}
