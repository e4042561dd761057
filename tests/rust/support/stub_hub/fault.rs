//! Faults that tests inject, and the log of the requests that a hub has received.

use std::io;
use std::sync::Mutex;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::http::{HubRequest, Refusal, set};
use crate::lock;

/// A fault that applies to some requests.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fault {
    /// Substring of the path of affected requests; empty matches all.
    pub path: String,
    /// Method of affected requests; empty matches any.
    pub method: String,
    /// Number of matching requests that succeed before the first failure.
    pub skip: usize,
    /// Number of requests that fail; `None` for no limit.
    pub times: Option<usize>,
    /// Answers the request with this status and does not process it.
    pub status: Option<u16>,
    /// Processes the request, then replaces the answer with this status.
    pub lost: Option<u16>,
    /// Delay before the answer begins, in milliseconds.
    pub wait_ms: u64,
    /// Delay before each chunk of the body, in milliseconds.
    pub slow_ms: u64,
    /// Closes the connection after this many bytes of the body.
    pub cut_bytes: Option<u64>,
    /// Simulates a changed file: inverts the bytes and sends another `ETag`.
    pub changed: bool,
}

#[derive(Debug, Default)]
pub(super) struct Faults {
    faults: Mutex<Vec<Fault>>,
}

impl Faults {
    pub(super) fn add(&self, fault: Fault) {
        lock(&self.faults).insert(0, fault);
    }

    pub(super) fn clear(&self) {
        lock(&self.faults).clear();
    }

    /// Returns the fault that applies to a request, and updates the counters of the
    /// fault.
    pub(super) fn take(&self, request: &HubRequest) -> Option<Fault> {
        let path = request.path();
        let mut faults = lock(&self.faults);
        let fault = faults.iter_mut().find(|fault| {
            path.contains(&fault.path)
                && (fault.method.is_empty() || fault.method == request.method.as_str())
                && fault.times != Some(0)
        })?;
        if fault.skip > 0 {
            fault.skip -= 1;
            return None;
        }
        fault.times = fault.times.map(|times| times - 1);
        Some(fault.clone())
    }
}

impl Fault {
    /// Waits for `wait_ms`, and returns the answer if the fault has a `status`.
    pub(super) async fn before(&self) -> Option<Response> {
        sleep(Duration::from_millis(self.wait_ms)).await;
        let status = self.status?;
        Some(Refusal::new(status, "", "A fault that a test asked for").response())
    }

    /// Applies the fault to an answer.
    pub(super) fn after(self, mut response: Response) -> Response {
        if let Some(status) = self.lost {
            return Refusal::new(status, "", "An answer that a test lost").response();
        }
        if self.changed {
            for name in ["etag", "x-linked-etag"] {
                if response.headers().contains_key(name) {
                    set(&mut response, name, "\"changed\"");
                }
            }
        }
        if self.slow_ms == 0 && self.cut_bytes.is_none() && !self.changed {
            return response;
        }
        let mut left = self.cut_bytes;
        response.map(|body| {
            let stream = body.into_data_stream().then(move |piece| {
                let wait = sleep(Duration::from_millis(self.slow_ms));
                let piece = piece.map_err(io::Error::other).and_then(|piece| {
                    let piece = match self.changed {
                        true => piece.iter().map(|byte| !byte).collect(),
                        false => piece,
                    };
                    cut(piece, &mut left)
                });
                async move {
                    wait.await;
                    piece
                }
            });
            Body::from_stream(stream)
        })
    }
}

/// Returns the bytes of a chunk that are sent before the body is cut off.
fn cut(piece: Bytes, left: &mut Option<u64>) -> io::Result<Bytes> {
    let Some(left) = left else {
        return Ok(piece);
    };
    if *left == 0 {
        return Err(io::Error::other("cut"));
    }
    let len = usize::try_from(*left)
        .unwrap_or(usize::MAX)
        .min(piece.len());
    *left -= len as u64;
    Ok(piece.slice(..len))
}

/// One request and the status of its answer.
#[derive(Debug, Clone, Serialize)]
pub struct LoggedRequest {
    /// The method, such as `GET`.
    pub method: String,
    /// Decoded path of the URL.
    pub path: String,
    /// Raw query of the URL.
    pub query: String,
    /// Status of the answer.
    pub status: u16,
    /// All headers, with lowercase names.
    pub headers: Vec<(String, String)>,
    /// Announced length of the request body, in bytes.
    pub received_bytes: u64,
    /// Announced length of the response body, in bytes.
    pub sent_bytes: u64,
}

impl LoggedRequest {
    /// Returns the value of the header called `name`.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| &**value)
    }
}

#[derive(Debug, Default)]
pub(super) struct Log {
    requests: Mutex<Vec<LoggedRequest>>,
}

impl Log {
    pub(super) fn add(&self, request: LoggedRequest) {
        lock(&self.requests).push(request);
    }

    pub(super) fn all(&self) -> Vec<LoggedRequest> {
        lock(&self.requests).clone()
    }

    pub(super) fn clear(&self) {
        lock(&self.requests).clear();
    }
}
