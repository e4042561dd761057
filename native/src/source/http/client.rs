//! Sends requests for one file and receives the responses.

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

/// The maximum number of redirects that are followed for one request.
pub(super) const MAX_REDIRECTS: u32 = 10;
/// The last resort for endless bodies. Stalls are normally detected by the bytes of the
/// body that arrive in a period, which do not include the framing of chunks.
const BODY_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// The maximum length of a response before its body, in bytes. The library also counts
/// bytes that arrive after a `100 Continue`, so this leaves space for the beginning of
/// a body.
const MAX_HEADERS_BYTES: usize = 255 << 10;
/// This must be larger than the limit, or longer headers would look like a closed
/// connection.
const INPUT_BUFFER_BYTES: usize = 256 << 10;

/// The maximum number of idle connections that are kept open, in total and to one
/// server. The files of a checkpoint share them.
const MAX_IDLE: usize = 32;
const MAX_IDLE_OF_HOST: usize = 16;

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

/// Returns the initial settings of connections.
pub(super) fn configuration() -> ConfigBuilder<AgentScope> {
    Agent::config_builder()
        .http_status_as_error(false)
        // Redirects are followed by this module, which decides which headers may be
        // sent to which server and which addresses are valid.
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
        // The user in the address is among the secrets of its origin.
        parsed
            .map(|target| Target {
                user: None,
                ..target
            })
            .map_err(|why| self.problem(format!("this is not an address: {why}")))
    }

    /// Sends a request, always starting at the original address: an address that it
    /// redirects to may be valid only for a short time.
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
            // If another origin redirects back to this one, it must not choose which
            // file is requested with the secrets of this origin.
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
            // Offsets refer to the file, not to a compressed copy of it.
            .header(header::ACCEPT_ENCODING, "identity");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        // A redirect may contain a user for another server.
        if let (Some(user), None) = (&target.user, secrets_for) {
            request = request.header(header::AUTHORIZATION, user);
        }
        self.send(request, (), secrets_for, progress.turn())
    }

    /// Sends one request with the secrets for an origin, within the time limits of
    /// `turn`.
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
