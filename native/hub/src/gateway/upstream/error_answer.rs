//! Error answers in the format of a hub.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use zstn_core::ErrorKind;
use zstn_net::client::reason;
use zstn_net::{proxy, shown};

use zstn::Error;

/// Headers of an upstream refusal that are passed to the client.
const PASSED: [HeaderName; 5] = [
    HeaderName::from_static("x-error-code"),
    HeaderName::from_static("x-error-message"),
    header::LOCATION,
    header::WWW_AUTHENTICATE,
    header::RETRY_AFTER,
];

/// The reason why a request is refused, and the answer that reports it.
#[derive(Debug, Clone)]
pub(in super::super) struct Refusal {
    pub(in super::super) status: StatusCode,
    headers: Box<HeaderMap>,
    message: String,
    about: About,
}

/// The subject of a refusal, which decides whether the remaining files can still be
/// listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    /// The refusal concerns the whole request or the upstream.
    Request,
    /// The refusal concerns a single file, which is damaged.
    File,
    /// The refusal concerns a single file, which does not restore a safetensors file on
    /// its own.
    Unsupported,
}

impl Refusal {
    pub(in super::super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            headers: Box::default(),
            message: message.into(),
            about: About::Request,
        }
    }

    /// Adds the error code that a hub would give.
    pub(super) fn code(mut self, code: &'static str) -> Self {
        self.insert("x-error-code", code);
        self
    }

    /// Returns the refusal for a file that is damaged.
    pub(in super::super) fn of_file(path: &str, reason: &str) -> Self {
        Self {
            about: About::File,
            ..Self::new(StatusCode::BAD_GATEWAY, format!("{path}: {reason}"))
        }
    }

    pub(in super::super) fn no_entry(path: &str) -> Self {
        let message = format!("there is no file {path} in this repository");
        Self::new(StatusCode::NOT_FOUND, message).code("EntryNotFound")
    }

    /// Returns the refusal for an upstream's error answer, with its status and its
    /// error headers.
    pub(super) fn of_answer(status: StatusCode, headers: &HeaderMap, body: &str) -> Self {
        let told = headers.get("x-error-message").map(HeaderValue::as_bytes);
        let told = told.map(String::from_utf8_lossy);
        let mut refusal = Self::new(status, told.as_deref().unwrap_or(body));
        for name in PASSED {
            if let Some(value) = headers.get(&name) {
                refusal.headers.insert(name, value.clone());
            }
        }
        refusal
    }

    /// Returns the refusal for an upstream that cannot be reached or does not answer in
    /// time.
    pub(super) fn unanswered(endpoint: &str, error: &reqwest::Error) -> Self {
        let mut reason = format!(": {}", reason(error));
        let (status, problem) = match error.is_timeout() && !error.is_connect() {
            true => (StatusCode::GATEWAY_TIMEOUT, "does not answer in time"),
            false => (StatusCode::BAD_GATEWAY, "cannot be reached"),
        };
        if let (true, Some(proxy)) = (error.is_connect(), proxy::describe_for(endpoint)) {
            reason.push_str(&format!(" (through {proxy})"));
        }
        let reason = shown::text(&reason);
        Self::new(
            status,
            format!(
                "the upstream {} {problem}{reason}",
                shown::address(endpoint)
            ),
        )
    }

    /// Returns whether the file does not exist, as opposed to its repository or
    /// revision.
    pub(in super::super) fn is_no_entry(&self) -> bool {
        let code = self.headers.get("x-error-code");
        self.status == StatusCode::NOT_FOUND && code.is_none_or(|code| code == "EntryNotFound")
    }

    /// Returns whether the file does not restore a safetensors file on its own.
    pub(in super::super) fn is_unsupported(&self) -> bool {
        self.about == About::Unsupported
    }

    /// Returns whether the refusal concerns a single file, as opposed to the upstream.
    pub(in super::super) fn is_of_file(&self) -> bool {
        self.about != About::Request || [401, 403, 404].contains(&self.status.as_u16())
    }

    /// Returns whether another attempt may succeed.
    pub(super) fn may_pass(&self) -> bool {
        self.status == StatusCode::TOO_MANY_REQUESTS || self.status.is_server_error()
    }

    /// Returns the address that a redirect leads to.
    pub(super) fn location(&self) -> Option<String> {
        let location = self.headers.get(header::LOCATION)?;
        Some(location.to_str().ok()?.to_owned())
    }

    fn insert(&mut self, name: &'static str, value: &str) {
        if let Ok(value) = HeaderValue::try_from(value) {
            self.headers.insert(name, value);
        }
    }

    /// Returns the response and the length of its body.
    pub(in super::super) fn answer(mut self) -> (Response, u64) {
        let line: String = self.message.chars().map(plain).collect();
        if !self.headers.contains_key("x-error-message") {
            self.insert("x-error-message", &line);
        }
        let body = serde_json::json!({ "error": self.message }).to_string();
        let len = body.len() as u64;
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.status;
        *response.headers_mut() = *self.headers;
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        (response, len)
    }
}

/// Replaces characters that a header must not contain with spaces.
fn plain(character: char) -> char {
    match character {
        ' '..='~' => character,
        _ => ' ',
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let kind = error.refusal().map(zstn_core::Error::kind);
        let (status, about) = match (&error, kind) {
            (
                Error::Http {
                    status: Some(status @ (401 | 403 | 404 | 429 | 500..=599)),
                    ..
                },
                _,
            ) => {
                let status = StatusCode::from_u16(*status);
                (status.unwrap_or(StatusCode::BAD_GATEWAY), About::Request)
            }
            (_, Some(ErrorKind::Unsupported)) => (StatusCode::NOT_FOUND, About::Unsupported),
            (_, Some(_)) => (StatusCode::BAD_GATEWAY, About::File),
            (_, None) => (StatusCode::BAD_GATEWAY, About::Request),
        };
        Self {
            about,
            ..Self::new(status, error.to_string())
        }
    }
}
