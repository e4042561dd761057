//! Requests to the hub and to its storage servers.

use std::fmt;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use ureq::config::ConfigBuilder;
use ureq::http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri};
use ureq::typestate::AgentScope;
use ureq::{Agent, AsSendBody, Body};

use super::refusal::Permission;
use super::{Refusal, Repository};
use zstn_net::target;

use zstn::internals::{Transport, offline};
use zstn::source::HttpOptions;
use zstn::{Error, Location, Result};

/// Maximum length of an answer, in bytes. A page of a file list has 1000 entries.
const MAX_ANSWER_BYTES: u64 = 64 << 20;
/// Time limits for connecting, for an answer to begin, and for each read or write.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum number of attempts of a request that fails for a transient reason.
const MAX_ATTEMPTS: u32 = 4;
const FIRST_WAIT: Duration = Duration::from_millis(300);
/// The longest delay that a server may request. A longer one is an error.
const MAX_WAIT: Duration = Duration::from_secs(30);

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
    transport: Transport,
}

/// Omits the token.
impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hub")
            .field("endpoint", &self.endpoint)
            .finish_non_exhaustive()
    }
}

/// A failed attempt. `Passing` failures are transient and may be retried.
pub(super) enum Failure {
    Final(Error),
    Passing {
        error: Error,
        wait: Option<Duration>,
    },
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Final(error)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Final(refusal.into())
    }
}

/// Returns the settings shared by all connections.
fn configuration() -> ConfigBuilder<AgentScope> {
    Agent::config_builder()
        .http_status_as_error(false)
        // The token must not follow a redirect to another server.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_recv_response(Some(ANSWER_TIMEOUT))
        .timeout_per_read(Some(ANSWER_TIMEOUT))
        .timeout_per_write(Some(ANSWER_TIMEOUT))
        .user_agent(concat!("zstn/", env!("CARGO_PKG_VERSION")))
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
        Ok(Self {
            endpoint: target.uri.to_string().trim_end_matches('/').into(),
            given: endpoint.into(),
            origin: Location::url(endpoint).origin().unwrap_or_default(),
            user: target.user,
            token: token.map(str::to_owned),
            transport: Transport::new(configuration),
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
        retrying(|| self.call_once(repository, method, path, body))
    }

    /// Like [`Hub::call`], but without retries.
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
        let answer = match body {
            Some((_, bytes)) => self.send(&url, request, bytes)?,
            None => self.send(&url, request, ())?,
        };
        let (parts, mut body) = answer.into_parts();
        if !parts.status.is_success() {
            let (status, headers) = (parts.status, &parts.headers);
            let permission = Permission::of_method(method);
            let has_token = self.token.is_some();
            return match Refusal::of(repository, status, headers, has_token, permission) {
                Some(refusal) => Err(refusal.into()),
                None => Err(refused(&url, status, headers)),
            };
        }
        let read = body.with_config().limit(MAX_ANSWER_BYTES).read_to_vec();
        let bytes = read.map_err(|error| unanswered(&url, &error))?;
        let value = match bytes.is_empty() {
            true => Ok(Value::Null),
            false => serde_json::from_slice(&bytes),
        };
        let value = value
            .map_err(|error| problem(&url, format!("the answer is not JSON: {error}"), None))?;
        Ok((value, parts.headers))
    }

    /// Adds the token, or else the user of the address, to a request to the hub.
    pub(super) fn authorised(
        &self,
        request: ureq::http::request::Builder,
    ) -> ureq::http::request::Builder {
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

    /// Sends a request without adding headers.
    pub(super) fn send(
        &self,
        url: &str,
        request: ureq::http::request::Builder,
        body: impl AsSendBody,
    ) -> Result<Response<Body>, Failure> {
        let request = request
            .body(body)
            .map_err(|error| problem(url, format!("this is not an address: {error}"), None))?;
        let sent = self.transport.run(request, |limits| limits);
        sent.map_err(|error| Failure::Passing {
            error: Error::unanswered(url, error.describe()),
            wait: None,
        })
    }
}

/// Returns the `Accept` header for a request body of type `kind`: LFS answers have a
/// type of their own.
fn kind_of_answer(kind: &str) -> &str {
    match kind {
        "application/vnd.git-lfs+json" => kind,
        _ => "application/json",
    }
}

/// Runs `attempt` until it succeeds, fails permanently or has failed too often.
pub(super) fn retrying<T>(mut attempt: impl FnMut() -> Result<T, Failure>) -> Result<T> {
    let mut wait = FIRST_WAIT;
    let mut attempts = 1;
    loop {
        match attempt() {
            Ok(value) => return Ok(value),
            Err(Failure::Final(error)) => return Err(error),
            Err(Failure::Passing { error, wait: asked }) => {
                let asked = asked.unwrap_or_default();
                if attempts == MAX_ATTEMPTS || asked > MAX_WAIT {
                    return Err(error);
                }
                thread::sleep(wait.max(asked));
            }
        }
        attempts += 1;
        wait *= 3;
    }
}

/// Returns the failure for an error status.
pub(super) fn refused(url: &str, status: StatusCode, headers: &HeaderMap) -> Failure {
    let header = |name: &str| headers.get(name)?.to_str().ok();
    let said = header("x-error-message").unwrap_or_default();
    let separator = if said.is_empty() { "" } else { ": " };
    let detail = format!("the server answered {status}{separator}{said}");
    let error = problem(url, detail, Some(status));
    match status.as_u16() {
        408 | 429 | 500 | 502..=504 => Failure::Passing {
            error,
            wait: header("retry-after")
                .and_then(|value| value.parse().ok())
                .map(Duration::from_secs),
        },
        _ => Failure::Final(error),
    }
}

/// Returns the failure for an answer that breaks off.
fn unanswered(url: &str, error: &ureq::Error) -> Failure {
    Failure::Passing {
        error: Error::unanswered(url, format!("cannot be reached: {error}")).caused_by(error),
        wait: None,
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
