//! Retries requests that failed for a reason that may be temporary.

use std::time::{Duration, Instant};

use tokio::time::sleep;
use zstn_net::retry::backoff;

use super::HttpOptions;
use crate::{Error, Result};

/// The minimum number of bytes of an attempt that is not counted as a failure although
/// it ended early. On a poor connection, a large tensor arrives in many attempts.
const PROGRESS_BYTES: u64 = 1 << 20;
/// The number of bytes that must arrive within the idle timeout. The default limit is
/// about 1 KiB per second, far below any useful connection, but it detects a server
/// that keeps a reader waiting with single bytes.
const MIN_BYTES: u64 = 32 << 10;

/// The reason why an attempt failed.
#[derive(Debug)]
pub enum Failure {
    /// The next attempt would fail as well.
    Final(Error),
    /// The next attempt may succeed.
    Passing {
        /// The error to report if there is no other attempt.
        error: Error,
        /// The wait that the server requests.
        retry_after: Option<Duration>,
        /// True if a reused connection broke before any response. Servers close idle
        /// connections at any time, so this does not indicate a problem.
        stale: bool,
    },
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

impl Failure {
    /// Returns a temporary failure for which the server requests no wait.
    pub fn passing(error: Error) -> Self {
        Self::Passing {
            error,
            retry_after: None,
            stale: false,
        }
    }
}

/// The time limits of one request, and the number of its attempt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    /// The time limit for connecting and for the response head; for an upload, also for
    /// each piece of the body.
    pub(super) patience: Duration,
    /// The time limit for a single read of the body.
    pub(super) silence: Duration,
    /// The number of the attempt, from 1.
    pub(super) attempt: u32,
}

/// The attempts of one read: their number, the bytes that it has received so far, and the
/// time that it has spent without progress.
#[derive(Debug)]
pub struct Attempts<'a> {
    options: &'a HttpOptions,
    /// The number of attempts so far, including the current one.
    count: u32,
    /// The number of failures since an attempt last received `PROGRESS_BYTES`.
    failures: u32,
    /// True once a broken idle connection was replaced, which is not counted.
    has_reconnected: bool,
    /// The largest number of bytes that the read has held at any time.
    highest: u64,
    /// The value of `highest` at the start of this attempt.
    before: u64,
    /// The time wasted since an attempt last received `PROGRESS_BYTES`: for each
    /// attempt, the time from the moment when too few bytes arrived until it was given
    /// up, and the waits between attempts.
    wasted: Duration,
    /// The time that this attempt may wait for a response and for each `MIN_BYTES`.
    limit: Duration,
    /// The time when the request or its body began, or when `MIN_BYTES` last arrived.
    marked: Instant,
    /// The time that the server took to send the head of the response whose body is
    /// being read.
    answer_took: Duration,
    bytes_since_mark: u64,
}

impl<'a> Attempts<'a> {
    /// Begins the first attempt.
    #[must_use]
    pub fn begin(options: &'a HttpOptions) -> Self {
        let mut attempts = Self {
            options,
            count: 0,
            failures: 0,
            has_reconnected: false,
            highest: 0,
            before: 0,
            wasted: Duration::ZERO,
            limit: Duration::ZERO,
            marked: Instant::now(),
            answer_took: Duration::ZERO,
            bytes_since_mark: 0,
        };
        attempts.begin_attempt();
        attempts
    }

    /// Waits after a failed attempt, and begins the next one.
    ///
    /// # Errors
    /// The error of the attempt, if it was permanent or the last one that the options
    /// allow.
    pub async fn retry(&mut self, failure: Failure) -> Result<()> {
        let (error, retry_after, stale) = match failure {
            Failure::Final(error) => return Err(error),
            Failure::Passing {
                error,
                retry_after,
                stale,
            } => (error, retry_after, stale),
        };
        if stale && !self.has_reconnected {
            self.has_reconnected = true;
            self.begin_attempt();
            return Ok(());
        }
        let much = self.highest - self.before >= PROGRESS_BYTES;
        if much {
            self.failures = 0;
            self.wasted = Duration::ZERO;
        }
        self.wasted += self.answer_took + self.marked.elapsed();
        let requested = retry_after.unwrap_or_default();
        let wait = backoff(self.options.first_backoff, self.failures).max(requested);
        if self.failures >= self.options.retries || wait >= self.left() {
            return Err(spent(error, self.count, retry_after));
        }
        self.wasted += wait;
        sleep(wait).await;
        if !much {
            self.failures += 1;
        }
        self.begin_attempt();
        Ok(())
    }

    fn begin_attempt(&mut self) {
        self.count += 1;
        self.before = self.highest;
        self.limit = self.left().min(self.options.idle_timeout);
        self.answer_took = Duration::ZERO;
        self.begin_request();
    }

    /// Returns the time that may still be wasted.
    fn left(&self) -> Duration {
        self.options.give_up_after.saturating_sub(self.wasted)
    }

    /// Begins a request, including its redirects.
    pub(super) fn begin_request(&mut self) {
        self.marked = Instant::now();
        self.bytes_since_mark = 0;
    }

    /// Returns the time limits for the next request.
    pub(super) fn turn(&self) -> Turn {
        // Some timeouts treat zero as no limit.
        let least = Duration::from_millis(1);
        let left = self.limit.saturating_sub(self.marked.elapsed());
        Turn {
            patience: left.max(least),
            silence: self.limit.max(least),
            attempt: self.count,
        }
    }

    /// Adds the time until the headers arrived to `answer_took`, and starts to time the
    /// body.
    pub(super) fn begin_body(&mut self) {
        self.answer_took += self.marked.elapsed();
        self.begin_request();
    }

    /// Counts `new_bytes`, after which the read holds `held_bytes`. Returns `false` if
    /// too few bytes arrive to continue.
    pub(super) fn received(&mut self, new_bytes: usize, held_bytes: u64) -> bool {
        self.highest = self.highest.max(held_bytes);
        self.bytes_since_mark += new_bytes as u64;
        if self.bytes_since_mark >= MIN_BYTES {
            self.begin_request();
            self.answer_took = Duration::ZERO;
        }
        self.marked.elapsed() < self.limit
    }
}

/// Adds the number of attempts, and the wait that the server requests, to the last
/// error.
fn spent(mut error: Error, attempts: u32, retry_after: Option<Duration>) -> Error {
    if let Error::Http { detail, .. } = &mut error {
        if let Some(wait) = retry_after.filter(|wait| !wait.is_zero()) {
            detail.push_str(&format!("; it requests a wait of {} s", wait.as_secs()));
        }
        if attempts > 1 {
            detail.push_str(&format!(" (tried {attempts} times)"));
        }
    }
    error
}
