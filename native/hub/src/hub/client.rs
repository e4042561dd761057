//! The client's requests, and the errors that a hub reports.

use std::fmt;
use std::time::Duration;

use http::request::Builder;
use http::{HeaderMap, HeaderValue, Request, StatusCode, Uri};
use reqwest::{Body, Response};
use serde_json::Value;
use tokio::time::timeout;
use zstn::internals::{Attempts, Failure, offline, wait};
use zstn::source::HttpOptions;
use zstn::{Error, Location, Result};
use zstn_net::client::{Cause, Connections, reason};
use zstn_net::retry::requested_wait;
use zstn_net::target;

use super::Repository;

/// Maximum length of an answer, in bytes. A page of a file list has 1000 entries.
const MAX_ANSWER_BYTES: usize = 64 << 20;
/// Time limits for connecting, and for the answer or the next part of it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// The longest delay that a server may request. A longer one is an error.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// The time that all attempts of a request may take before the last one. Uploading a
/// file may take long before the connection breaks.
const GIVE_UP_AFTER: Duration = Duration::from_secs(60 * 60);

/// A hub, with the token of an account.
#[derive(Clone)]
pub struct Hub {
    /// The address without user and password.
    endpoint: String,
    /// The address as it was given.
    given: String,
    origin: String,
    /// `Authorization: Basic …`, if the address contains a user.
    user: Option<HeaderValue>,
    token: Option<String>,
    connections: Connections,
    /// The number of retries, and the waits before them.
    retries: HttpOptions,
}

/// Omits the token.
impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

impl Hub {
    /// Returns the hub at `endpoint`, an http(s) address.
    ///
    /// # Errors
    /// [`Error::Usage`] for an invalid address, or a token with characters that a
    /// header must not contain.
    pub fn new(endpoint: &str, token: Option<&str>) -> Result<Self> {
        let endpoint = endpoint.trim_end_matches('/');
        let token = token.map(str::trim).filter(|token| !token.is_empty());
        // Checks the address and the token.
        let http = HttpOptions::default().hub(endpoint, token)?;
        if let Some(token) = token {
            http.token(endpoint, token)?;
        }
        offline::check("the hub")?;
        let target = target::parse(endpoint).map_err(Error::Usage)?;
        let mut retries = HttpOptions::default();
        retries.give_up_after = GIVE_UP_AFTER;
        Ok(Self {
            endpoint: target.uri.to_string().trim_end_matches('/').into(),
            given: endpoint.into(),
            origin: Location::url(endpoint).origin().unwrap_or_default(),
            user: target.user,
            token: token.map(str::to_owned),
            connections: Connections::default(),
            retries,
        })
    }

    /// Returns the hub's address, without user, password and trailing slash.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Returns the options for reading `hf://` addresses from this hub.
    ///
    /// # Errors
    /// Never for a hub from [`Hub::new`], which has checked the address.
    pub fn http(&self) -> Result<HttpOptions> {
        HttpOptions::default().hub(&self.given, self.token.as_deref())
    }

    /// Sends a request with the token to the hub and parses the answer. Transient
    /// failures are retried.
    pub(super) fn call(
        &self,
        repository: &Repository,
        method: &str,
        path: &str,
        body: Option<(&str, &[u8])>,
    ) -> Result<(Value, HeaderMap)> {
        self.retrying(|| self.call_once(repository, method, path, body))
    }

    /// Sends a request like [`Hub::call`], but without retries.
    pub(super) fn call_once(
        &self,
        repository: &Repository,
        method: &str,
        path: &str,
        body: Option<(&str, &[u8])>,
    ) -> Result<(Value, HeaderMap), Failure> {
        let url = format!("{}{path}", self.endpoint);
        let mut request = self.authorised(Request::builder().method(method).uri(&url));
        if let Some((kind, _)) = body {
            request = request
                .header("content-type", kind)
                .header("accept", kind_of_answer(kind));
        }
        let body = body.map_or_else(Body::default, |(_, bytes)| bytes.to_vec().into());
        wait(async {
            let answer = self.send(&url, request, body, ANSWER_TIMEOUT).await?;
            let (status, headers) = (answer.status(), answer.headers().clone());
            if !status.is_success() {
                let permission = Permission::of_method(method);
                let has_token = self.token.is_some();
                return match Refusal::of(repository, status, &headers, has_token, permission) {
                    Some(refusal) => Err(Failure::Final(refusal.into())),
                    None => Err(refused(&url, status, &headers)),
                };
            }
            let bytes = read(&url, answer).await?;
            let value = match bytes.is_empty() {
                true => Ok(Value::Null),
                false => serde_json::from_slice(&bytes),
            };
            let value = value
                .map_err(|error| problem(&url, format!("the answer is not JSON: {error}"), None))?;
            Ok((value, headers))
        })
    }

    /// Adds the token, or else the user of the address, to a request to the hub.
    pub(super) fn authorised(&self, request: Builder) -> Builder {
        match &self.token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => match &self.user {
                Some(user) => request.header("authorization", user),
                None => request,
            },
        }
    }

    /// Returns whether an address is on the hub, so that it may receive the token.
    pub(super) fn is_own(&self, url: &str) -> bool {
        Location::url(url).origin().as_deref() == Some(&self.origin)
    }

    /// Sends a request without adding headers. The head of its answer must arrive within
    /// `patience`.
    pub(super) async fn send(
        &self,
        url: &str,
        request: Builder,
        body: Body,
        patience: Duration,
    ) -> Result<Response, Failure> {
        let request = request
            .body(body)
            .map_err(|error| problem(url, format!("this is not an address: {error}"), None))?;
        let sent = self.connections.send(request, CONNECT_TIMEOUT, patience);
        sent.await.map_err(|unanswered| {
            let error = match unanswered.cause {
                Cause::Unsendable | Cause::Untrusted => problem(url, unanswered.detail, None),
                _ => Error::unanswered(url, unanswered.detail),
            };
            let error = error.with_source(unanswered.source);
            match error.is_retryable() {
                true => Failure::passing(error),
                false => Failure::Final(error),
            }
        })
    }

    /// Runs `attempt` until it succeeds, fails permanently or has failed too often.
    pub(super) fn retrying<T>(&self, mut attempt: impl FnMut() -> Result<T, Failure>) -> Result<T> {
        let mut attempts = Attempts::begin(&self.retries);
        loop {
            match attempt() {
                Ok(value) => return Ok(value),
                Err(failure) => wait(attempts.retry(failure))?,
            }
        }
    }
}

/// Reads the body of an answer of at most [`MAX_ANSWER_BYTES`].
async fn read(url: &str, mut answer: Response) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    loop {
        let Ok(piece) = timeout(ANSWER_TIMEOUT, answer.chunk()).await else {
            return Err(Failure::passing(stalled(url)));
        };
        let piece = piece.map_err(|error| {
            let detail = format!("the answer breaks off: {}", reason(&error));
            Failure::passing(Error::unanswered(url, detail).caused_by(&error))
        })?;
        let Some(piece) = piece else {
            return Ok(bytes);
        };
        if bytes.len() + piece.len() > MAX_ANSWER_BYTES {
            let detail = format!("the answer is longer than {MAX_ANSWER_BYTES} bytes");
            return Err(problem(url, detail, None).into());
        }
        bytes.extend_from_slice(&piece);
    }
}

/// Returns the error for a server that has stopped sending or accepting bytes.
pub(super) fn stalled(url: &str) -> Error {
    let seconds = ANSWER_TIMEOUT.as_secs();
    Error::unanswered(url, format!("nothing came from the server for {seconds} s"))
}

/// Returns the `Accept` header for a request body of type `kind`: LFS answers have a
/// type of their own.
fn kind_of_answer(kind: &str) -> &str {
    match kind {
        "application/vnd.git-lfs+json" => kind,
        _ => "application/json",
    }
}

/// Returns the failure for a response with an error status: a transient one if another
/// attempt may succeed.
pub(super) fn refused(url: &str, status: StatusCode, headers: &HeaderMap) -> Failure {
    let header = |name: &str| headers.get(name)?.to_str().ok();
    let said = header("x-error-message").unwrap_or_default();
    let separator = if said.is_empty() { "" } else { ": " };
    let detail = format!("the server answered {status}{separator}{said}");
    let error = problem(url, detail, Some(status));
    let retry_after = requested_wait(headers);
    match error.is_retryable() && retry_after.is_none_or(|wait| wait <= MAX_WAIT) {
        true => Failure::Passing {
            error,
            retry_after,
            stale: false,
        },
        false => Failure::Final(error),
    }
}

/// Returns an error about an address, without its query, which may contain a signature.
pub(super) fn problem(url: &str, detail: String, status: Option<StatusCode>) -> Error {
    Error::http(url, detail, status.map(|status| status.as_u16()))
}

/// Returns the path and query of an address.
pub(super) fn path_and_query(url: &str) -> Option<String> {
    let uri: Uri = url.parse().ok()?;
    Some(uri.path_and_query()?.to_string())
}

impl Refusal {
    /// Returns the refusal behind an error of this crate, if it is one.
    #[must_use]
    pub fn in_error(error: &Error) -> Option<&Self> {
        match error {
            Error::Hub(refusal) => refusal.downcast_ref(),
            _ => None,
        }
    }
}

/// Returns whether a hub answered that it has no such repository, revision or file.
pub(crate) fn is_not_found(error: &Error) -> bool {
    matches!(Refusal::in_error(error), Some(Refusal::NotFound { .. }))
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Hub(Box::new(refusal))
    }
}

/// The permission that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Permission to read a repository.
    Read,
    /// Permission to write to a repository.
    Write,
}

impl Permission {
    /// Returns the permission that a request with this method needs.
    pub(super) fn of_method(method: &str) -> Self {
        match method {
            "GET" | "HEAD" => Self::Read,
            _ => Self::Write,
        }
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write to",
        })
    }
}

/// The reason why a hub refuses a request. The message states what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The request needs a token, and none is set.
    #[error(
        "{repository}: the hub requires a login; set HF_TOKEN to a token that may {permission} \
         the repository"
    )]
    NoToken {
        /// The name of the repository.
        repository: String,
        /// The missing permission.
        permission: Permission,
    },
    /// The hub rejects the token (status 401).
    #[error(
        "{repository}: the hub does not accept the token, or there is no such repository; check \
         the name, and make another token if it has expired"
    )]
    Unauthorized {
        /// The name of the repository.
        repository: String,
    },
    /// The token lacks a permission (status 403).
    #[error(
        "{repository}: the token may not do this; give it the permission to {permission} the \
         repository{said}"
    )]
    Forbidden {
        /// The name of the repository.
        repository: String,
        /// The missing permission.
        permission: Permission,
        /// The hub's explanation in parentheses, or an empty string.
        said: String,
    },
    /// The repository, revision or file does not exist or is hidden (status 404).
    #[error(
        "{repository}: the hub has no such repository, revision or file, or the token may not \
         see it{said}"
    )]
    NotFound {
        /// The name of the repository.
        repository: String,
        /// The hub's explanation in parentheses, or an empty string.
        said: String,
    },
    /// The repository is gated, and the request has no access to it.
    #[error(
        "{repository} is gated; accept its terms on its page with the account that the token \
         belongs to"
    )]
    Gated {
        /// The name of the repository.
        repository: String,
    },
    /// The branch is at another commit than the expected parent.
    #[error("{repository}: {branch} received another commit; plan again on it")]
    ParentMoved {
        /// The name of the repository.
        repository: String,
        /// The name of the branch.
        branch: String,
    },
    /// The hub rejects a large file.
    #[error("{repository}: the hub does not accept the object {oid}: {said}")]
    Object {
        /// The name of the repository.
        repository: String,
        /// SHA-256 of the file.
        oid: String,
        /// The hub's explanation.
        said: String,
    },
}

impl Refusal {
    /// Returns the refusal for an error answer, or `None` for statuses that are not
    /// refusals.
    pub(super) fn of(
        repository: &Repository,
        status: StatusCode,
        headers: &HeaderMap,
        has_token: bool,
        permission: Permission,
    ) -> Option<Self> {
        let header = |name: &str| headers.get(name)?.to_str().ok();
        let said = header("x-error-message").filter(|said| !said.is_empty());
        let said = said.map_or_else(String::new, |said| format!(" (it says: {said})"));
        let repository = repository.to_string();
        if header("x-error-code") == Some("GatedRepo") {
            return Some(Self::Gated { repository });
        }
        Some(match status.as_u16() {
            401 if has_token => Self::Unauthorized { repository },
            401 => Self::NoToken {
                repository,
                permission,
            },
            403 => Self::Forbidden {
                repository,
                permission,
                said,
            },
            404 => Self::NotFound { repository, said },
            _ => return None,
        })
    }
}
