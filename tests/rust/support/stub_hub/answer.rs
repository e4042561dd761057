//! HTTP responses and refusals.

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};

/// A refused request: the status, the `X-Error-Code` value, and a message.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    status: u16,
    code: &'static str,
    message: String,
}

impl Refusal {
    /// Creates a refusal. An empty `code` sends no `X-Error-Code` header.
    pub(super) fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
        }
    }

    pub(super) fn repo_not_found() -> Self {
        Self::new(404, "RepoNotFound", "Repository not found")
    }

    pub(super) fn revision_not_found(revision: &str) -> Self {
        let message = format!("Invalid rev id: {revision}");
        Self::new(404, "RevisionNotFound", message)
    }

    pub(super) fn entry_not_found() -> Self {
        Self::new(404, "EntryNotFound", "Entry not found")
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "", message)
    }

    pub(super) fn response(&self) -> Response {
        let mut response = json_response(&json!({ "error": self.message }));
        set_status(&mut response, self.status);
        set(&mut response, "x-error-message", &self.message);
        if !self.code.is_empty() {
            set(&mut response, "x-error-code", self.code);
        }
        response
    }
}

impl From<std::io::Error> for Refusal {
    fn from(error: std::io::Error) -> Self {
        Self::new(500, "", error.to_string())
    }
}

pub(super) type Answer = Result<Response, Refusal>;

/// Returns a 200 response with a JSON body.
pub(super) fn json_response(value: &Value) -> Response {
    let mut response = bytes_response(value.to_string().into());
    set(&mut response, "content-type", "application/json");
    response
}

/// Returns a 200 response with these bytes as its body.
pub(super) fn bytes_response(body: Bytes) -> Response {
    let len = body.len();
    let mut response = Response::new(Body::from(body));
    response
        .headers_mut()
        .insert(header::CONTENT_LENGTH, HeaderValue::from(len));
    response
}

/// Returns a response with this status and an empty body.
pub(super) fn empty_response(status: u16) -> Response {
    let mut response = bytes_response(Bytes::new());
    set_status(&mut response, status);
    response
}

/// Sets the status; an invalid one becomes 500.
pub(super) fn set_status(response: &mut Response, status: u16) {
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
}

/// Sets a header. Values that are not allowed in a header are dropped.
pub(super) fn set(response: &mut Response, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response
            .headers_mut()
            .insert(HeaderName::from_static(name), value);
    }
}
