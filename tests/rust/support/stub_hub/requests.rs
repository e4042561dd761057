//! Parsed requests without their bodies, and functions that read bodies.

use axum::body::{Body, Bytes, to_bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use hyper::body::Incoming;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::answer::Refusal;

/// Maximum length in bytes of a body that is read into memory.
const BODY_BYTES: usize = 256 << 20;

/// A parsed request without its body.
#[derive(Debug)]
pub(super) struct HubRequest {
    pub(super) method: Method,
    /// The path, split at slashes and then decoded.
    pub(super) segments: Vec<String>,
    /// The path before decoding.
    pub(super) raw_path: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) raw_query: String,
    pub(super) headers: HeaderMap,
}

impl HubRequest {
    pub(super) fn new(parts: Parts) -> Self {
        let raw_path = parts.uri.path().to_owned();
        let raw_query = parts.uri.query().unwrap_or_default().to_owned();
        Self {
            method: parts.method,
            segments: raw_path.trim_matches('/').split('/').map(decode).collect(),
            query: pairs(&raw_query),
            raw_path,
            raw_query,
            headers: parts.headers,
        }
    }

    /// Returns the decoded path.
    pub(super) fn path(&self) -> String {
        decode(&self.raw_path)
    }

    /// Returns the value of a query parameter.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| &**value)
    }

    /// Returns whether a query parameter is present and not false.
    pub(super) fn has(&self, name: &str) -> bool {
        self.parameter(name)
            .is_some_and(|value| !["false", "False", "0"].contains(&value))
    }

    /// Returns the value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// Parses the key-value pairs of a query or a form.
pub(super) fn pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let plain = |text: &str| decode(&text.replace('+', " "));
            (plain(name), plain(value))
        })
        .collect()
}

fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Reads a body into memory.
pub(super) async fn read(body: Incoming) -> Result<Bytes, Refusal> {
    to_bytes(Body::new(body), BODY_BYTES)
        .await
        .map_err(|error| Refusal::bad_request(error.to_string()))
}

/// Reads a JSON body; an empty body is `null`.
pub(super) async fn read_json(body: Incoming) -> Result<Value, Refusal> {
    let body = read(body).await?;
    if body.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&body).map_err(|error| Refusal::bad_request(error.to_string()))
}
