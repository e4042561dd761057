//! Reads and writes the messages between git-lfs and the agent.

use std::io::{BufRead, Read, Write};
use std::sync::{Mutex, PoisonError};

use super::message::{Request, Response};
use zstn::{Error, Result};

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
