//! Sends requests for one file and receives the responses.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use http::request::Builder;
use http::{HeaderName, HeaderValue, Method, Request, header};
use reqwest::Body;
use zstn_net::shown;
use zstn_net::target::{self, Target};

use super::HttpOptions;
use super::answer::Answer;
use super::origin::Origin;
use super::retry::{Attempts, Failure, Turn};
use crate::Error;
use crate::source::hub::HubFile;
use crate::source::scheme::Scheme;

/// The maximum number of redirects that are followed for one request.
pub(super) const MAX_REDIRECTS: u32 = 10;

/// The header in which a hub states the commit that a response came from.
const COMMIT: &str = "x-repo-commit";

/// The address of a file, and the connections to its server.
#[derive(Debug)]
pub(super) struct Client {
    /// The address that the caller gave.
    url: String,
    /// The same address without secrets, for messages.
    shown: String,
    /// The file in a hub that the address refers to, if it is such an address.
    hub: Option<HubFile>,
    options: HttpOptions,
    /// True once the server has responded. A server that never has is not retried,
    /// since it is unlikely to start within seconds.
    answered: AtomicBool,
    requests: AtomicU64,
    received_bytes: AtomicU64,
}

impl Client {
    /// Creates a client for the file at `url`, which is an http(s) address or an
    /// address in a hub.
    ///
    /// # Errors
    /// [`Error::Usage`] for a malformed address in a hub; a hub token that cannot be
    /// read or sent.
    pub(super) fn new(url: &str, options: &HttpOptions) -> Result<Self, Error> {
        let mut options = options.clone();
        let hub = match Scheme::find(url) {
            Some(Scheme::Hub) => Some(options.log_in(url)?),
            _ => None,
        };
        let asked = hub.as_ref().map(HubFile::url);
        let asked = asked.as_deref().unwrap_or(url);
        // A malformed address is reported when the first request is sent.
        if let Ok(Target {
            user: Some(user), ..
        }) = target::parse(asked)
            && !options.secrets.has(asked, &header::AUTHORIZATION)
        {
            options
                .secrets
                .add_value(asked, header::AUTHORIZATION, user)?;
        }
        Ok(Self {
            url: url.into(),
            shown: shown::address(url).into_owned(),
            hub,
            options,
            answered: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            received_bytes: AtomicU64::new(0),
        })
    }

    /// Returns the address without secrets, for messages and names.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// Returns the address that the caller gave, which may contain secrets.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the file in a hub that is read, if the address is in a hub.
    pub(super) fn hub(&self) -> Option<&HubFile> {
        self.hub.as_ref()
    }

    /// Returns the address of the version that is read, if that version has its own
    /// address.
    pub(super) fn pinned(&self) -> Option<String> {
        self.hub.as_ref()?.pinned()
    }

    pub(super) fn options(&self) -> &HttpOptions {
        &self.options
    }

    pub(super) fn has_answered(&self) -> bool {
        self.answered.load(Relaxed)
    }

    /// Returns the number of requests so far, including retries but not redirects.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// Returns the number of body bytes received so far.
    pub(super) fn received_bytes(&self) -> u64 {
        self.received_bytes.load(Relaxed)
    }

    pub(super) fn count(&self, received_bytes: usize) {
        self.received_bytes
            .fetch_add(received_bytes as u64, Relaxed);
    }

    /// Returns the http(s) address to request.
    pub(super) fn target(&self) -> Result<Target, Error> {
        let url = self.hub.as_ref().map(HubFile::url);
        let parsed = target::parse(url.as_ref().unwrap_or(&self.url));
        // The user in the address has been added to the secrets for its origin, so it
        // must not be sent a second time.
        parsed
            .map(|target| Target {
                user: None,
                ..target
            })
            .map_err(|why| self.problem(format!("this is not an address: {why}")))
    }

    /// Sends a request, always starting at the original address: an address that it
    /// redirects to may be valid only for a short time.
    pub(super) async fn request(
        &self,
        method: &Method,
        headers: &[(HeaderName, HeaderValue)],
        attempts: &mut Attempts<'_>,
    ) -> Result<Answer, Failure> {
        self.requests.fetch_add(1, Relaxed);
        attempts.begin_request();
        let mut target = self.target()?;
        let origin = Origin::of(&target.uri);
        let mut is_home = true;
        for _ in 0..=MAX_REDIRECTS {
            // If another origin redirects back to this one, it must not choose which
            // file is requested with the secrets of this origin.
            is_home &= Origin::of(&target.uri) == origin;
            let secrets_for = origin.as_ref().filter(|_| is_home);
            let turn = attempts.turn();
            let answer = self.hop(method, &target, headers, secrets_for, turn);
            let answer = answer.await?;
            self.answered.store(true, Relaxed);
            if let (Some(hub), true) = (&self.hub, is_home)
                && let Some(commit) = answer.headers.get(COMMIT)
            {
                hub.note_commit(commit.to_str().unwrap_or_default());
            }
            let location = match answer.status.as_u16() {
                301 | 302 | 303 | 307 | 308 => answer.headers.get(header::LOCATION),
                _ => return Ok(answer),
            };
            let location = location.ok_or_else(|| {
                self.status_problem(answer.status, " without saying where the file is")
            })?;
            target = self.redirected(&target, location)?;
        }
        let detail = format!("the server redirects more than {MAX_REDIRECTS} times");
        Err(self.problem(detail).into())
    }

    /// Returns the address that a response from `from` redirects to.
    pub(super) fn redirected(
        &self,
        from: &Target,
        location: &HeaderValue,
    ) -> Result<Target, Error> {
        target::redirected(&from.uri, location).map_err(|why| self.problem(why))
    }

    /// Sends one request without following redirects. `headers` are sent to any server.
    /// The secrets for `secrets_for` are added, which must be the origin of both
    /// `target` and the original address.
    async fn hop(
        &self,
        method: &Method,
        target: &Target,
        headers: &[(HeaderName, HeaderValue)],
        secrets_for: Option<&Origin>,
        turn: Turn,
    ) -> Result<Answer, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(&target.uri)
            // Offsets refer to the file, not to a compressed copy of it.
            .header(header::ACCEPT_ENCODING, "identity");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        // The address of a redirect may contain a user for another server.
        if let (Some(user), None) = (&target.user, secrets_for) {
            request = request.header(header::AUTHORIZATION, user);
        }
        self.send(request, Body::default(), secrets_for, turn).await
    }

    /// Sends one request with the secrets for an origin, within the time limits of
    /// `turn`.
    pub(super) async fn send(
        &self,
        mut request: Builder,
        body: Body,
        secrets_for: Option<&Origin>,
        turn: Turn,
    ) -> Result<Answer, Failure> {
        if let Some(origin) = secrets_for {
            request = self.options.secrets.apply(origin, request);
        }
        let request: Request<Body> = request
            .body(body)
            .map_err(|error| self.problem(format!("this is not an address: {error}")))?;
        let observer = self.options.observer.as_ref();
        let asked = request.uri().to_string();
        let mut in_flight = observer.map(|observer| observer.begin(&request, turn.attempt));
        let connecting = self.options.connecting();
        let connections = &self.options.connections;
        let sent = connections.send(request, connecting, turn.patience).await;
        let mut body = sent.map_err(|error| self.unanswered(error))?;
        let headers = std::mem::take(body.headers_mut());
        if let Some(in_flight) = &mut in_flight {
            in_flight.answered(body.status());
        }
        Ok(Answer {
            framing: self.framing(body.version(), &headers)?,
            status: body.status(),
            headers,
            body,
            silence: turn.silence,
            asked,
            in_flight,
        })
    }
}
