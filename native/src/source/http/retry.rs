//! Retries requests that failed for a reason that may be temporary.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use httpdate::parse_http_date;

use super::HttpOptions;
use crate::{Error, Result};

/// The maximum wait, unless the server requests a longer one.
const MAX_BACKOFF: Duration = Duration::from_secs(10);
/// An attempt that received at least this many bytes is not counted as a failure: on a
/// poor connection, large tensors arrive in many pieces.
const PROGRESS_BYTES: u64 = 1 << 20;
/// The number of bytes that must arrive within the idle timeout. The default limit is
/// about 1 KiB per second, far below any useful connection, but it detects a server
/// that keeps a reader waiting with single bytes.
const MIN_BYTES: u64 = 32 << 10;

/// The reason why an attempt failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The next attempt would fail as well.
    Final(Error),
    /// The next attempt may succeed.
    Passing {
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
    pub(super) fn passing(error: Error) -> Self {
        Self::Passing {
            error,
            retry_after: None,
            stale: false,
        }
    }
}

/// The time limits and the number of one request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    /// The time limit for sending the request, and again for receiving the response
    /// head.
    pub(super) patience: Duration,
    /// The time limit for a single read of the body.
    pub(super) silence: Duration,
    /// The number of the attempt, from 1.
    pub(super) attempt: u32,
}

/// The bytes that one read has received so far, and the time it has spent without
/// progress.
#[derive(Debug)]
pub(super) struct Progress<'a> {
    options: &'a HttpOptions,
    /// The number of attempts so far, including the current one.
    attempts: u32,
    /// The largest number of bytes that the read has held at any time.
    highest: u64,
    /// The time wasted by the attempts since the last `PROGRESS_BYTES`: for each, from
    /// the moment when too few bytes arrived until it was given up, and the waits
    /// between attempts.
    wasted: Duration,
    /// The time that this attempt may wait for a response and for each `MIN_BYTES`.
    limit: Duration,
    /// The time when the request or its body began, or when `MIN_BYTES` last arrived.
    marked: Instant,
    /// The time that the response head took whose body is being read.
    answer_took: Duration,
    bytes_since_mark: u64,
}

impl<'a> Progress<'a> {
    fn new(options: &'a HttpOptions) -> Self {
        Self {
            options,
            attempts: 0,
            highest: 0,
            wasted: Duration::ZERO,
            limit: Duration::ZERO,
            marked: Instant::now(),
            answer_took: Duration::ZERO,
            bytes_since_mark: 0,
        }
    }

    fn begin_attempt(&mut self) {
        self.attempts += 1;
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
            attempt: self.attempts,
        }
    }

    /// Adds the time until the headers arrived to `answer_took`, and starts to time the body.
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

    fn waste_attempt(&mut self) {
        self.wasted += self.answer_took + self.marked.elapsed();
    }
}

/// Runs `attempt` until it succeeds, fails permanently, or fails more often than the
/// options allow.
pub(super) fn retrying<T>(
    options: &HttpOptions,
    mut attempt: impl FnMut(&mut Progress<'_>) -> Result<T, Failure>,
) -> Result<T> {
    let mut progress = Progress::new(options);
    let (mut failures, mut reconnected) = (0, false);
    loop {
        let before = progress.highest;
        progress.begin_attempt();
        let (error, retry_after, stale) = match attempt(&mut progress) {
            Ok(value) => return Ok(value),
            Err(Failure::Final(error)) => return Err(error),
            Err(Failure::Passing {
                error,
                retry_after,
                stale,
            }) => (error, retry_after, stale),
        };
        if stale && !reconnected {
            reconnected = true;
            continue;
        }
        let much = progress.highest - before >= PROGRESS_BYTES;
        if much {
            failures = 0;
            progress.wasted = Duration::ZERO;
        }
        progress.waste_attempt();
        let asked = retry_after.unwrap_or_default();
        let wait = backoff(options.first_backoff, failures).max(asked);
        if failures >= options.retries || wait >= progress.left() {
            return Err(spent(error, progress.attempts, retry_after));
        }
        progress.wasted += wait;
        thread::sleep(wait);
        if !much {
            failures += 1;
        }
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

/// Returns a wait with full jitter, between zero and a limit that doubles each time.
/// Many readers whose server failed at the same moment must not retry at the same
/// moment.
fn backoff(first: Duration, failures: u32) -> Duration {
    let limit = first.saturating_mul(1 << failures.min(16)).min(MAX_BACKOFF);
    limit.mul_f64(f64::from(random()) / f64::from(u32::MAX))
}

/// Returns a random number that is sufficient for waits, from the seed of the standard
/// library's hash maps.
fn random() -> u32 {
    let bits = RandomState::new().build_hasher().finish();
    u32::try_from(bits >> 32).unwrap_or_default()
}

/// Parses `Retry-After` (RFC 9110, section 10.2.3), which is a number of seconds or a
/// date.
pub(super) fn parse_retry_after(header: &str, now: SystemTime) -> Option<Duration> {
    let text = header.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that overflows is a very long wait.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = parse_http_date("Sun, 06 Nov 1994 08:49:00 GMT").unwrap();
        for (header, seconds) in [
            ("0", Some(0)),
            ("120", Some(120)),
            (" 3 ", Some(3)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(37)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(37)),
            ("Sun Nov  6 08:49:37 1994", Some(37)),
            ("Sun, 06 Nov 1994 08:40:00 GMT", Some(0)),
            ("-5", None),
            ("+5", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            let expected = seconds.map(Duration::from_secs);
            assert_eq!(parse_retry_after(header, now), expected, "{header}");
        }
    }

    #[test]
    fn waits_double_up_to_a_limit() {
        let first = Duration::from_millis(300);
        for (failures, limit_ms) in [(0, 300), (1, 600), (5, 9600), (6, 10_000), (40, 10_000)] {
            let limit = Duration::from_millis(limit_ms);
            let waits: Vec<_> = (0..200).map(|_| backoff(first, failures)).collect();
            assert!(waits.iter().all(|wait| *wait <= limit), "{failures}");
            assert!(waits.iter().any(|wait| *wait > limit / 2), "{failures}");
            assert!(waits.iter().any(|wait| *wait < limit / 2), "{failures}");
        }
    }
}
