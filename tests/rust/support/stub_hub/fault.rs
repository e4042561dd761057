//! Faults that tests ask for.

use std::io;
use std::sync::Mutex;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::answer::{Refusal, set};
use super::lock;
use super::requests::HubRequest;

/// A fault of some requests.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Fault {
    /// Part of the path of the requests; empty for all of them.
    pub path: String,
    /// Method of the requests; empty for any.
    pub method: String,
    /// Number of requests before the first that fails.
    pub skip: usize,
    /// Number of requests that fail; `None` for all.
    pub times: Option<usize>,
    /// The request is answered with this status alone.
    pub status: Option<u16>,
    /// The request has its effect, and is answered with this status alone.
    pub lost: Option<u16>,
    /// Time before the answer begins, in milliseconds.
    pub wait_ms: u64,
    /// Time before each piece of the body, in milliseconds.
    pub slow_ms: u64,
    /// The connection is closed after this much of the body, in bytes.
    pub cut_bytes: Option<u64>,
    /// The file has changed: other bytes, another `ETag`.
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

    /// Returns the fault that a request has, and counts the request.
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
    /// Waits, and returns the answer where there is no other.
    pub(super) async fn before(&self) -> Option<Response> {
        sleep(Duration::from_millis(self.wait_ms)).await;
        let status = self.status?;
        Some(Refusal::new(status, "", "A fault that a test asked for").response())
    }

    /// Spoils an answer.
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

/// Returns what is left of a piece where a body is cut.
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
