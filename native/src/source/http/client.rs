//! One request and its answer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use ureq::config::ConfigBuilder;
use ureq::http::request::Builder;
use ureq::http::{HeaderName, HeaderValue, Method, Request, header};
use ureq::typestate::AgentScope;
use ureq::{Agent, AsSendBody};
use zstn_net::shown;
use zstn_net::target::{self, Target};

use super::HttpOptions;
use super::answer::Answer;
use super::retry::{Failure, Progress, Turn};
use super::secrets::Origin;
use crate::Error;
use crate::source::hub::HubFile;
use crate::source::scheme::Scheme;

/// The largest number of redirects that are followed for one request.
pub(super) const MAX_REDIRECTS: u32 = 10;
/// A backstop. What limits a body is how much of it arrives in a while; bytes
/// that never become a part of it (the frames of chunks) are not counted there.
const BODY_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// The most that an answer may have before its body, in bytes. The library
/// counts what has arrived after a `100 Continue` as well, so this leaves room
/// for the beginning of a body.
const MAX_HEADERS_BYTES: usize = 255 << 10;
/// Has to be larger, or such headers would look like the end of a connection.
const INPUT_BUFFER_BYTES: usize = 256 << 10;

/// Connections without a request that are kept, in all and to one server. The files
/// of a checkpoint share them.
const MAX_IDLE: usize = 32;
const MAX_IDLE_OF_HOST: usize = 16;

/// The header by which a hub says which commit an answer was made from.
const COMMIT: &str = "x-repo-commit";

/// A file's address, and the connections to its server.
#[derive(Debug)]
pub(super) struct Client {
    /// The address that was given.
    url: String,
    /// The same for messages.
    shown: String,
    /// The file of a hub that this address means.
    hub: Option<HubFile>,
    options: HttpOptions,
    /// True once the server has answered. A server that never has is not
    /// repeatedly asked: it will not be up a second later.
    answered: AtomicBool,
    requests: AtomicU64,
    received_bytes: AtomicU64,
}

/// Begins the settings of connections.
pub(super) fn configuration() -> ConfigBuilder<AgentScope> {
    Agent::config_builder()
        .http_status_as_error(false)
        // Redirects are followed here: what may be sent where is this project's
        // own concern, and so is what counts as an address.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_response_header_size(MAX_HEADERS_BYTES)
        .input_buffer_size(INPUT_BUFFER_BYTES)
        .max_idle_connections(MAX_IDLE)
        .max_idle_connections_per_host(MAX_IDLE_OF_HOST)
        .timeout_recv_body(Some(BODY_TIMEOUT))
        .user_agent(concat!("zstn/", env!("CARGO_PKG_VERSION")))
}

impl Client {
    /// Prepares to ask for the file at `url`, an http(s) address or one in a hub.
    ///
    /// # Errors
    /// [`Error::Usage`] for a malformed address in a hub; a token for the hub
    /// that cannot be read or sent.
    pub(super) fn new(url: &str, options: &HttpOptions) -> Result<Self, Error> {
        let mut options = options.clone();
        let hub = match Scheme::find(url) {
            Some(Scheme::Hub) => Some(options.log_in(url)?),
            _ => None,
        };
        let asked = hub.as_ref().map(HubFile::url);
        let asked = asked.as_deref().unwrap_or(url);
        // Requests say so if it is not an address.
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

    /// Returns the address as messages and names show it.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }

    /// Returns the address that was given, which may contain secrets.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the file of a hub that is read, if it is one.
    pub(super) fn hub(&self) -> Option<&HubFile> {
        self.hub.as_ref()
    }

    /// Returns the address of the version that is read, if the server gives it
    /// one of its own.
    pub(super) fn pinned(&self) -> Option<String> {
        self.hub.as_ref()?.pinned()
    }

    pub(super) fn options(&self) -> &HttpOptions {
        &self.options
    }

    pub(super) fn has_answered(&self) -> bool {
        self.answered.load(Relaxed)
    }

    /// Requests made so far, those made again included, redirects not.
    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// Bytes of bodies received so far.
    pub(super) fn received_bytes(&self) -> u64 {
        self.received_bytes.load(Relaxed)
    }

    pub(super) fn count(&self, received_bytes: usize) {
        self.received_bytes
            .fetch_add(received_bytes as u64, Relaxed);
    }

    /// Returns the http(s) address to ask.
    pub(super) fn target(&self) -> Result<Target, Error> {
        let url = self.hub.as_ref().map(HubFile::url);
        let parsed = target::parse(url.as_ref().unwrap_or(&self.url));
        // Its user is among the secrets of its origin.
        parsed
            .map(|target| Target {
                user: None,
                ..target
            })
            .map_err(|why| self.problem(format!("this is not an address: {why}")))
    }

    /// Makes a request, always to the address that was given: one that it
    /// redirects to may be valid for a short time only.
    pub(super) fn request(
        &self,
        method: &Method,
        headers: &[(HeaderName, HeaderValue)],
        progress: &mut Progress<'_>,
    ) -> Result<Answer, Failure> {
        self.requests.fetch_add(1, Relaxed);
        progress.begin_request();
        let mut target = self.target()?;
        let origin = Origin::of(&target.uri);
        let mut is_home = true;
        for _ in 0..=MAX_REDIRECTS {
            // Another origin that redirects back must not choose what is asked
            // for with the secrets of this one.
            is_home &= Origin::of(&target.uri) == origin;
            let secrets_for = origin.as_ref().filter(|_| is_home);
            let answer = self.hop(method, &target, headers, secrets_for, progress)?;
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

    /// Returns the address that an answer of `from` redirects to.
    pub(super) fn redirected(
        &self,
        from: &Target,
        location: &HeaderValue,
    ) -> Result<Target, Error> {
        target::redirected(&from.uri, location).map_err(|why| self.problem(why))
    }

    /// One request without redirects. These headers go wherever the server
    /// points; the secrets for `secrets_for` are added if that is the origin of
    /// both `target` and the address that was given.
    fn hop(
        &self,
        method: &Method,
        target: &Target,
        headers: &[(HeaderName, HeaderValue)],
        secrets_for: Option<&Origin>,
        progress: &Progress<'_>,
    ) -> Result<Answer, Failure> {
        let mut request = Request::builder()
            .method(method)
            .uri(&target.uri)
            // Positions are of the file, not of a compressed copy of it.
            .header(header::ACCEPT_ENCODING, "identity");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        // A redirect may name a user for another server.
        if let (Some(user), None) = (&target.user, secrets_for) {
            request = request.header(header::AUTHORIZATION, user);
        }
        self.send(request, (), secrets_for, progress.turn())
    }

    /// Sends one request with the secrets for an origin, in the time that it has.
    pub(super) fn send(
        &self,
        mut request: Builder,
        body: impl AsSendBody,
        secrets_for: Option<&Origin>,
        turn: Turn,
    ) -> Result<Answer, Failure> {
        if let Some(origin) = secrets_for {
            request = self.options.secrets.apply(origin, request);
        }
        let request = request
            .body(body)
            .map_err(|error| self.problem(format!("this is not an address: {error}")))?;
        let observer = self.options.observer.as_ref();
        let asked = request.uri().to_string();
        let mut in_flight = observer.map(|observer| observer.begin(&request, turn.attempt));
        let Turn {
            patience, silence, ..
        } = turn;
        let connecting = patience.min(self.options.connect_timeout);
        let response = self.options.transport.run(request, |limits| {
            limits
                .timeout_resolve(Some(connecting))
                .timeout_connect(Some(connecting))
                .timeout_send_request(Some(patience))
                .timeout_recv_response(Some(patience))
                .timeout_per_read(Some(silence))
                .timeout_per_write(Some(patience))
        });
        let (parts, body) = response
            .map_err(|error| self.unanswered(error))?
            .into_parts();
        if let Some(in_flight) = &mut in_flight {
            in_flight.answered(parts.status);
        }
        Ok(Answer {
            framing: self.framing(parts.version, &parts.headers)?,
            status: parts.status,
            headers: parts.headers,
            body,
            asked,
            in_flight,
        })
    }
}
