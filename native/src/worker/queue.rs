//! The queue: a file for every job, in folders that say how far it is.
//!
//! | `jobs/queued/KEY.json` | to do, or being worked on |
//! | `jobs/finished/KEY.json` | done; the same notification does nothing |
//! | `jobs/failed/KEY.json` | given up; the same notification tries again |
//! | `locks/REPOSITORY` | locked while a worker works on a job of it |
//! | `commits/COMMIT` | made by a worker of this queue |
//!
//! A job leaves `queued` only after it is in one of the others, and its lock ends with
//! the process, so that a worker that is killed neither loses nor keeps one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Job;
use crate::hub::{Repository, is_commit};
use crate::lock::Lock;
use crate::manifest::{Results, write_json};
use crate::source::HttpOptions;
use crate::{Error, Location, Result};

/// How often the folder is looked at for jobs that others have put there.
const POLL: Duration = Duration::from_secs(1);
/// The first wait before another attempt, which doubles with each, and the longest.
const FIRST_WAIT_SECONDS: u64 = 5;
const MAX_WAIT_SECONDS: u64 = 3600;
/// Attempts, after which a job counts as failed.
const MAX_ATTEMPTS: u32 = 12;

/// A queue in a folder.
#[derive(Debug)]
pub(super) struct Queue {
    folder: PathBuf,
    /// True if there may be a new job.
    news: Mutex<bool>,
    told: Condvar,
}

/// What became of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Queued {
    /// It is a new job.
    New,
    /// It is one already, or was.
    Known,
}

/// A job that nobody else works on.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) job: Job,
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
        })
    }

    fn path(&self, folder: &str, key: &str) -> PathBuf {
        self.folder
            .join("jobs")
            .join(folder)
            .join(format!("{key}.json"))
    }

    /// Adds a job, unless it is known.
    pub(super) fn add(&self, job: &Job) -> Result<Queued> {
        let key = job.key()?;
        if self.path("finished", &key).exists() {
            return Ok(Queued::Known);
        }
        let is_new = write(&self.path("queued", &key), job, false)?;
        // One that was given up begins anew.
        let _ = fs::remove_file(self.path("failed", &key));
        self.wake();
        Ok(if is_new { Queued::New } else { Queued::Known })
    }

    /// Has [`Queue::wait`] return.
    pub(super) fn wake(&self) {
        *self.news.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.told.notify_all();
    }

    /// Waits until there may be something to do.
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

    /// Takes the oldest job that is due and that nobody works on.
    pub(super) fn claim(&self) -> Result<Option<Claim>> {
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
            // Somebody may just have finished it.
            let Some(job) = read(&path)? else { continue };
            if job.not_before > now_seconds() {
                continue;
            }
            let Some(lock) = self.lock(&job.repository()?)? else {
                continue;
            };
            // Again, now that nobody else can change it.
            let Some(job) = read(&path)? else { continue };
            let key = job.key()?;
            if job.not_before > now_seconds() {
                continue;
            }
            if self.path("finished", &key).exists() {
                remove(&path)?;
                continue;
            }
            return Ok(Some(Claim {
                job,
                key,
                _lock: lock,
            }));
        }
        Ok(None)
    }

    /// Takes the lock of a repository: there is one commit at a time.
    pub(super) fn lock(&self, repository: &Repository) -> Result<Option<Lock>> {
        Lock::take(&self.folder.join("locks").join(repository.file_name()))
    }

    /// Moves a job to those that are done.
    pub(super) fn finish(&self, mut claim: Claim, outcome: &str) -> Result<()> {
        claim.job.outcome = Some(outcome.into());
        write(&self.path("finished", &claim.key), &claim.job, true)?;
        remove(&self.path("queued", &claim.key))
    }

    /// Moves a job to those that are given up.
    pub(super) fn fail(&self, mut claim: Claim, reason: &str) -> Result<()> {
        claim.job.outcome = Some(reason.into());
        write(&self.path("failed", &claim.key), &claim.job, true)?;
        remove(&self.path("queued", &claim.key))
    }

    /// Leaves a job for later; returns the wait in seconds, or `None` if it has failed
    /// too often and is given up.
    pub(super) fn retry(&self, mut claim: Claim, reason: &str) -> Result<Option<u64>> {
        claim.job.attempts += 1;
        if claim.job.attempts >= MAX_ATTEMPTS {
            self.fail(claim, reason)?;
            return Ok(None);
        }
        let doubled = FIRST_WAIT_SECONDS << (claim.job.attempts - 1);
        let wait = doubled.min(MAX_WAIT_SECONDS);
        claim.job.not_before = now_seconds() + wait;
        claim.job.outcome = Some(reason.into());
        write(&self.path("queued", &claim.key), &claim.job, true)?;
        Ok(Some(wait))
    }

    /// Returns what became of the files of all jobs.
    pub(super) fn results(&self) -> Result<Results> {
        let folder = Location::from(self.folder.join("results"));
        Results::open(&folder, &HttpOptions::default())
    }

    /// Notes a commit that this worker has made.
    pub(super) fn note_commit(&self, commit: &str) -> Result<()> {
        let path = self.folder.join("commits").join(commit);
        fs::write(&path, b"").map_err(Error::file("write", &path))
    }

    /// Returns whether a worker of this queue has made a commit.
    pub(super) fn is_own(&self, commit: &str) -> bool {
        is_commit(commit) && self.folder.join("commits").join(commit).exists()
    }
}

/// Returns whether it is a job, not a file that is being written.
fn is_entry(entry: &std::io::Result<fs::DirEntry>) -> bool {
    entry.as_ref().is_ok_and(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        !name.starts_with('.') && name.ends_with(".json")
    })
}

fn write(path: &Path, job: &Job, replace: bool) -> Result<bool> {
    write_json(&Location::from(path), job, replace, &HttpOptions::default())
}

fn read(path: &Path) -> Result<Option<Job>> {
    let bytes = match fs::read(path) {
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
