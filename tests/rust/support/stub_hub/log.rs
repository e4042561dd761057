//! The log of the requests that a hub has received.

use std::sync::Mutex;

use serde::Serialize;

use super::lock;

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
