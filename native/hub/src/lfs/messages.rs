//! The messages of the transfer agent protocol, one JSON object per line, and the
//! progress that they report.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{BufRead, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use zstn::{Error, Progress, Result};

/// A message from git-lfs.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(super) enum Request {
    /// Begins the session; the agent answers that it is ready.
    Init,
    /// Requests the upload of an object of the local repository.
    Upload(Transfer),
    /// Requests the download of an object that the local repository lacks.
    Download(Transfer),
    /// Ends the session.
    Terminate,
}

/// An object to transfer.
#[derive(Debug, Deserialize)]
pub(super) struct Transfer {
    pub(super) oid: String,
    /// Length of the original, in bytes.
    pub(super) size: u64,
    /// The local file of an object to upload.
    #[serde(default)]
    pub(super) path: String,
    /// The request that the server specifies; `None` without a server.
    #[serde(default)]
    pub(super) action: Option<Action>,
}

/// A request to an LFS server.
#[derive(Deserialize)]
pub(super) struct Action {
    pub(super) href: String,
    #[serde(default)]
    pub(super) header: Option<BTreeMap<String, String>>,
}

/// Omits the values of headers and the query of the address, which may contain secrets.
impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let href = self.href.split('?').next();
        f.debug_struct("Action")
            .field("href", &href)
            .finish_non_exhaustive()
    }
}

/// A message to git-lfs.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Response<'a> {
    /// The agent is ready.
    Ready {},
    /// The agent cannot start.
    NotReady { error: Problem },
    /// Progress, in bytes of the original.
    Progress {
        event: &'static str,
        oid: &'a str,
        #[serde(rename = "bytesSoFar")]
        so_far_bytes: u64,
        #[serde(rename = "bytesSinceLast")]
        since_last_bytes: u64,
    },
    /// The transfer of an object has ended.
    Complete {
        event: &'static str,
        oid: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<Problem>,
    },
}

impl<'a> Response<'a> {
    pub(super) fn progress(oid: &'a str, so_far_bytes: u64, since_last_bytes: u64) -> Self {
        Self::Progress {
            event: "progress",
            oid,
            so_far_bytes,
            since_last_bytes,
        }
    }

    pub(super) fn complete(oid: &'a str, path: Option<&'a str>) -> Self {
        Self::Complete {
            event: "complete",
            oid,
            path,
            error: None,
        }
    }

    pub(super) fn failed(oid: &'a str, error: Problem) -> Self {
        Self::Complete {
            event: "complete",
            oid,
            path: None,
            error: Some(error),
        }
    }
}

/// An error that git-lfs shows to the user.
#[derive(Debug, Serialize)]
pub(super) struct Problem {
    pub(super) code: u16,
    pub(super) message: String,
}

/// Maximum length of a message, in bytes. Messages contain the headers of requests.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// Returns the next message, or `None` if git-lfs has closed the pipe.
///
/// # Errors
/// A line that is not a message of this protocol; I/O errors.
pub(super) fn receive(from: &mut dyn BufRead) -> Result<Option<Request>> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = from.take(MAX_LINE_BYTES).read_until(b'\n', &mut line);
        let len = read.map_err(|error| Error::io("read the messages of git-lfs", error))?;
        match len as u64 {
            0 => return Ok(None),
            MAX_LINE_BYTES => {
                return Err(Error::Usage(format!(
                    "a message of git-lfs is longer than {MAX_LINE_BYTES} bytes"
                )));
            }
            _ if line.trim_ascii().is_empty() => {}
            _ => break,
        }
    }
    // The line may contain a token, so the error does not quote it.
    serde_json::from_slice(&line).map(Some).map_err(|error| {
        Error::Usage(format!(
            "this is not a message of git-lfs to a transfer agent ({}, column {}); git-lfs starts \
             this program by itself once `zstn lfs install` has run",
            match error.classify() {
                serde_json::error::Category::Data => "other fields or values than expected",
                _ => "not JSON",
            },
            error.column()
        ))
    })
}

/// Sends messages to git-lfs, from any thread.
pub(super) trait Replies: Sync {
    /// Writes one message as one line.
    fn send(&self, response: &Response<'_>) -> Result<()>;
}

/// The pipe to git-lfs.
pub(super) struct Channel<W>(Mutex<W>);

impl<W: Write + Send> Channel<W> {
    pub(super) fn new(to: W) -> Self {
        Self(Mutex::new(to))
    }
}

impl<W: Write + Send> Replies for Channel<W> {
    fn send(&self, response: &Response<'_>) -> Result<()> {
        let mut line = serde_json::to_vec(response)
            .map_err(|error| Error::io("write a message to git-lfs", error.into()))?;
        line.push(b'\n');
        let mut to = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        to.write_all(&line)
            .and_then(|()| to.flush())
            .map_err(|error| Error::io("write a message to git-lfs", error))
    }
}

/// Minimum time between two messages about the progress of a transfer.
const INTERVAL: Duration = Duration::from_millis(100);

/// Reports the progress of one transfer to git-lfs. Positions only increase, and only
/// the last message reports the full size.
pub(super) struct Meter<'a> {
    channel: &'a dyn Replies,
    oid: &'a str,
    size: u64,
    state: Mutex<State>,
}

struct State {
    sent_bytes: u64,
    /// The time of the last message.
    at: Option<Instant>,
}

impl<'a> Meter<'a> {
    pub(super) fn new(channel: &'a dyn Replies, oid: &'a str, size: u64) -> Self {
        let state = State {
            sent_bytes: 0,
            at: None,
        };
        Self {
            channel,
            oid,
            size,
            state: Mutex::new(state),
        }
    }

    /// Returns the stage that covers the work from `from`/`of` to `to`/`of` of the
    /// whole.
    pub(super) fn stage(&self, from: u64, to: u64, of: u64) -> Stage<'_> {
        Stage {
            meter: self,
            from: share(self.size, from, of),
            to: share(self.size, to, of),
            total_bytes: AtomicU64::new(0),
            done_bytes: AtomicU64::new(0),
        }
    }

    /// Reports that the whole transfer is done.
    pub(super) fn finish(&self) -> Result<()> {
        let mut state = self.state();
        let since_last = self.size - state.sent_bytes;
        state.sent_bytes = self.size;
        let response = Response::progress(self.oid, self.size, since_last);
        self.channel.send(&response)
    }

    fn reach(&self, position: u64) {
        let position = position.min(self.size.saturating_sub(1));
        let mut state = self.state();
        let is_due = state.at.is_none_or(|at| at.elapsed() >= INTERVAL);
        if position <= state.sent_bytes || !is_due {
            return;
        }
        let since_last = position - state.sent_bytes;
        state.sent_bytes = position;
        state.at = Some(Instant::now());
        let response = Response::progress(self.oid, position, since_last);
        // If git-lfs has gone, the final message of the transfer fails.
        let _ = self.channel.send(&response);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stage of a transfer, whose work is measured in its own units.
pub(super) struct Stage<'a> {
    meter: &'a Meter<'a>,
    from: u64,
    to: u64,
    total_bytes: AtomicU64,
    done_bytes: AtomicU64,
}

impl Stage<'_> {
    /// Reports that `done_bytes` of `total_bytes` of this stage are done.
    pub(super) fn at(&self, done_bytes: u64, total_bytes: u64) {
        let done = share(self.to - self.from, done_bytes, total_bytes);
        self.meter.reach(self.from + done);
    }
}

impl Progress for Stage<'_> {
    fn begin(&self, len_bytes: u64) {
        self.total_bytes.store(len_bytes, Relaxed);
    }

    fn advance(&self, len_bytes: u64) {
        let done = self.done_bytes.fetch_add(len_bytes, Relaxed) + len_bytes;
        self.at(done, self.total_bytes.load(Relaxed));
    }
}

/// Returns `part / whole` of `bytes`, rounded down and at most `bytes`.
fn share(bytes: u64, part: u64, whole: u64) -> u64 {
    let share = u128::from(bytes) * u128::from(part.min(whole)) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(bytes).min(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_grow_and_never_pass_the_size() {
        let mut lines = Vec::new();
        let oid = "0".repeat(64);
        {
            let channel = Channel::new(&mut lines);
            let meter = Meter::new(&channel, &oid, 1000);
            let stage = meter.stage(0, 1, 2);
            stage.begin(10);
            for _ in 0..5 {
                meter.state().at = None;
                stage.advance(7);
            }
            // More work than announced, and a stage without a total.
            meter.stage(1, 2, 2).at(u64::MAX, 1);
            meter.stage(1, 2, 2).at(5, 0);
            meter.finish().unwrap();
        }
        let text = String::from_utf8(lines).unwrap();
        let mut so_far = 0;
        for line in text.lines() {
            let message: serde_json::Value = serde_json::from_str(line).unwrap();
            so_far += message["bytesSinceLast"].as_u64().unwrap();
            assert_eq!(message["bytesSoFar"], so_far, "{text}");
        }
        assert_eq!(so_far, 1000);
        assert!(text.contains(r#""bytesSoFar":350,"#), "{text}");
        assert!(text.contains(r#""bytesSoFar":500,"#), "{text}");
    }
}
