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

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{Job, JobEvent, Stage};
use crate::hub::{Repository, is_commit};
use crate::lock::Lock;
use crate::manifest::{Results, write_json};
use zstn::internals::regular;
use zstn::source::HttpOptions;
use zstn::{Error, Location, Result};

/// The pause between two looks for jobs that others have put into the folder.
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
    /// Entries that are not jobs, of which the log has a line each.
    bad: Mutex<HashSet<PathBuf>>,
    /// The job that is being worked on, as it was in the queue.
    under_way: Mutex<Option<(String, Job)>>,
}

/// The result of a notification.
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

    /// Adds a job, unless it is known.
    pub(super) fn add(&self, job: &Job) -> Result<Queued> {
        let key = job.key()?;
        if self.is_finished(&key, job) {
            return Ok(Queued::Known);
        }
        let is_new = write(&self.path("queued", &key), job, false)?;
        if is_new {
            // One that was given up begins anew. One that is being given up now does
            // not: it leaves `queued` next.
            let _ = fs::remove_file(self.path("failed", &key));
        }
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

    /// Takes the oldest job that is due and that nobody works on. The attempt counts
    /// from now on, so that a job that ends the process is given up like others.
    /// Entries that cannot be taken are left out, with a line for `log`.
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
            // The wait if the process ends; after the first time there is none.
            claim.job.not_before = match claim.job.attempts {
                1 => 0,
                attempts => now_seconds() + wait_seconds(attempts - 1),
            };
            write(&self.path("queued", &claim.key), &claim.job, true)?;
            return Ok(Some(claim));
        }
        Ok(None)
    }

    /// Takes the job in a file, if it is due and nobody works on it.
    fn claim_entry(&self, path: &Path) -> Result<Option<Claim>> {
        // Somebody may just have finished it.
        let Some(job) = read(path)? else {
            return Ok(None);
        };
        if job.not_before > now_seconds() {
            return Ok(None);
        }
        let Some(lock) = self.lock(&job.repository()?)? else {
            return Ok(None);
        };
        // Again, now that nobody else can change it.
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

    /// Returns whether this very push is done. Where the branch had another commit
    /// before, it has been set back to this one, without the commit of the worker.
    fn is_finished(&self, key: &str, job: &Job) -> bool {
        let finished = read(&self.path("finished", key)).ok().flatten();
        finished.is_some_and(|finished| job.before.is_none() || finished.before == job.before)
    }

    fn under_way(&self) -> MutexGuard<'_, Option<(String, Job)>> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves the job that is being worked on as it was, since the worker was asked to
    /// end: that is no failed attempt.
    pub(super) fn give_back(&self) -> Result<()> {
        if let Some((key, job)) = &*self.under_way() {
            write(&self.path("queued", key), job, true)?;
        }
        Ok(())
    }

    /// Takes the lock of a repository: there is one commit at a time.
    pub(super) fn lock(&self, repository: &Repository) -> Result<Option<Lock>> {
        Lock::take(&self.folder.join("locks").join(repository.file_name()))
    }

    /// Moves a job to those that are done.
    pub(super) fn finish(&self, mut claim: Claim, outcome: &str) -> Result<()> {
        *self.under_way() = None;
        claim.job.outcome = Some(outcome.into());
        write(&self.path("finished", &claim.key), &claim.job, true)?;
        remove(&self.path("queued", &claim.key))
    }

    /// Moves a job to those that are given up.
    pub(super) fn fail(&self, mut claim: Claim, reason: &str) -> Result<()> {
        *self.under_way() = None;
        claim.job.outcome = Some(reason.into());
        write(&self.path("failed", &claim.key), &claim.job, true)?;
        remove(&self.path("queued", &claim.key))
    }

    /// Leaves a job for later; returns the wait in seconds, or `None` if it has failed
    /// too often and is given up.
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

/// Returns the wait after that many attempts.
fn wait_seconds(attempts: u32) -> u64 {
    let doublings = attempts.clamp(1, MAX_ATTEMPTS) - 1;
    (FIRST_WAIT_SECONDS << doublings).min(MAX_WAIT_SECONDS)
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
    // Opening a pipe would wait for a writer.
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
