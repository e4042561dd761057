//! Connections to servers, directly or through a proxy.

use std::error::Error as StdError;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, io, process};

use http::Request;
use reqwest::redirect::Policy;
use reqwest::{Body, Client, ClientBuilder, Response};
use tokio::time::{sleep, timeout};

use crate::cause::{self, BoxedError};
use crate::proxy::{self, Proxies};
use crate::tls::{self, Roots};

/// The maximum number of idle connections to one server, and the time after which they
/// are closed. Requests for all files of a checkpoint share these connections.
const MAX_IDLE_OF_HOST: usize = 16;
const MAX_IDLE_TIME: Duration = Duration::from_secs(15);

/// The maximum number of headers of a response.
const MAX_HEADERS: usize = 256;

/// Returns a builder with the settings that all clients share: certificates, proxies and
/// the user agent. No client follows redirects by itself, because the caller decides
/// which headers another server may receive, and none decompresses, because offsets
/// refer to the file and not to a compressed copy of it.
///
/// # Errors
/// The TLS implementation does not support the default protocol versions.
pub fn builder(proxies: &Proxies) -> Result<ClientBuilder, rustls::Error> {
    Ok(with_tls(proxies, tls::config()?))
}

fn with_tls(proxies: &Proxies, tls: rustls::ClientConfig) -> ClientBuilder {
    let proxies = proxies.clone();
    let proxy = reqwest::Proxy::custom(move |target| proxies.url_for(target.as_str()));
    Client::builder()
        .tls_backend_preconfigured(tls)
        .proxy(proxy)
        .user_agent(concat!("zstn/", env!("CARGO_PKG_VERSION")))
        .http1_only()
        .http1_max_headers(MAX_HEADERS)
        .redirect(Policy::none())
        .referer(false)
        .pool_max_idle_per_host(MAX_IDLE_OF_HOST)
        .pool_idle_timeout(MAX_IDLE_TIME)
}

/// A pool of connections to any number of servers. Clones share the pool.
#[derive(Clone)]
pub struct Connections(Arc<Shared>);

struct Shared {
    proxies: Proxies,
    clients: Mutex<Vec<(Key, Client)>>,
    /// True once any server has responded.
    has_answered: AtomicBool,
}

/// The properties that all connections of one client of the pool have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    /// The process ID: a forked child must not use the connections of its parent.
    process: u32,
    /// True if connections are encrypted. Only such a client reads the certificates,
    /// which takes milliseconds.
    is_encrypted: bool,
    connect_timeout: Duration,
}

/// The maximum number of clients in the pool. A program needs few, because it uses the
/// same time limit for all connections.
const MAX_CLIENTS: usize = 8;

impl fmt::Debug for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let proxies = &self.0.proxies;
        f.debug_tuple("Connections").field(proxies).finish()
    }
}

impl Default for Connections {
    /// Returns a pool whose connections use the proxies that the environment of this
    /// process names. No connection is made before the first request.
    fn default() -> Self {
        Self(Arc::new(Shared {
            proxies: Proxies::of_process(),
            clients: Mutex::default(),
            has_answered: AtomicBool::new(false),
        }))
    }
}

impl Connections {
    /// Sends a request, and returns the response once its head has arrived. Connecting
    /// takes at most `connect_timeout`; the whole call takes at most `patience`.
    ///
    /// # Errors
    /// There is no response.
    pub async fn send(
        &self,
        request: Request<Body>,
        connect_timeout: Duration,
        patience: Duration,
    ) -> Result<Response, Unanswered> {
        let proxy = self.0.proxies.find(request.uri());
        let proxy = proxy.map_err(|why| Unanswered::new(Cause::Unsendable, why))?;
        let is_https = request.uri().scheme_str() == Some("https");
        let key = Key {
            process: process::id(),
            is_encrypted: is_https || proxy.is_some_and(|proxy| proxy.url().scheme() == "https"),
            connect_timeout,
        };
        let described = proxy.map(proxy::Proxy::describe);
        let unsendable = |why: String| Unanswered::new(Cause::Unsendable, why);
        let request = reqwest::Request::try_from(request)
            .map_err(|error| unsendable(format!("this is not an address: {}", reason(&error))))?;
        let client = self
            .client(key)
            .map_err(|error| unsendable(format!("connections cannot be set up: {error}")))?;
        let answer = match timeout(patience, execute(&client, request)).await {
            Ok(answer) => answer.map_err(|error| Unanswered::of(&error, described))?,
            Err(_) => return Err(Unanswered::new(Cause::Silent, "no answer came".into())),
        };
        self.0.has_answered.store(true, Relaxed);
        Ok(answer)
    }

    /// Returns whether any server has responded before, so that a connection may be a
    /// reused one.
    #[must_use]
    pub fn has_answered(&self) -> bool {
        self.0.has_answered.load(Relaxed)
    }

    fn client(&self, key: Key) -> Result<Client, Box<dyn StdError>> {
        let mut clients = self
            .0
            .clients
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((_, client)) = clients.iter().find(|(known, _)| *known == key) {
            return Ok(client.clone());
        }
        let tls = match key.is_encrypted {
            true => tls::config()?,
            false => tls::config_without_certificates()?,
        };
        let client = with_tls(&self.0.proxies, tls);
        let client = client.connect_timeout(key.connect_timeout).build()?;
        if clients.len() == MAX_CLIENTS {
            clients.remove(0);
        }
        clients.push((key, client.clone()));
        Ok(client)
    }
}

/// The wait for a free file descriptor, and the maximum number of waits per request.
const DESCRIPTOR_WAIT: Duration = Duration::from_millis(10);
const MAX_DESCRIPTOR_WAITS: u32 = 100;

/// Sends a request. If the process has no file descriptors left, waits and tries again:
/// for a moment, the pool may have more connections than there are requests, because it
/// opens one while another becomes idle.
async fn execute(
    client: &Client,
    mut request: reqwest::Request,
) -> Result<Response, reqwest::Error> {
    for _ in 0..MAX_DESCRIPTOR_WAITS {
        let Some(copy) = request.try_clone() else {
            break;
        };
        match client.execute(request).await {
            Err(error) if error.is_connect() && lacks_descriptors(&error) => request = copy,
            answer => return answer,
        }
        sleep(DESCRIPTOR_WAIT).await;
    }
    client.execute(request).await
}

/// Returns whether the process or the system has too many open files.
fn lacks_descriptors(error: &reqwest::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    let number = find::<io::Error>(error).and_then(io::Error::raw_os_error);
    cfg!(unix) && matches!(number, Some(ENFILE | EMFILE))
}

/// The reason why there is no response.
#[derive(Debug)]
pub struct Unanswered {
    /// The phase in which the request failed.
    pub cause: Cause,
    /// A sentence for the user, without the URL.
    pub detail: String,
    /// The error of the HTTP library, without secrets, if there is one.
    pub source: Option<BoxedError>,
}

/// The phase in which a request failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The request cannot be sent, because the URL or the settings are wrong.
    Unsendable,
    /// No connection can be made.
    Unreachable,
    /// The certificate of the server is not trusted.
    Untrusted,
    /// The connection broke before the response.
    Broken,
    /// The response did not arrive in time.
    Silent,
    /// The response has too many or too long headers.
    LongHead,
    /// The response is not valid HTTP.
    Invalid,
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl StdError for Unanswered {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&**self.source.as_ref()?)
    }
}

impl Unanswered {
    fn new(cause: Cause, detail: String) -> Self {
        Self {
            cause,
            detail,
            source: None,
        }
    }

    /// Returns the reason for an error of the HTTP client. `proxy` describes the proxy
    /// of the request.
    fn of(error: &reqwest::Error, proxy: Option<String>) -> Self {
        Self {
            source: Some(cause::of(error)),
            ..Self::without_source(error, proxy)
        }
    }

    fn without_source(error: &reqwest::Error, proxy: Option<String>) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        let text = reason(error);
        let http = find::<hyper::Error>(error);
        let kind = find::<io::Error>(error).map(io::Error::kind);
        let is_broken = matches!(
            kind,
            Some(BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
        ) || http.is_some_and(|error| {
            error.is_incomplete_message() || error.is_canceled() || error.is_closed()
        });
        if text.contains("invalid peer certificate") {
            let advice = Roots::of_process().advice();
            let detail = format!("the certificate of the server is not trusted: {text}{advice}");
            return Self::new(Cause::Untrusted, detail);
        }
        // An invalid response of a proxy to `CONNECT` is a failure to connect.
        if let Some(http) = http.filter(|http| http.is_parse() && !error.is_connect()) {
            return match http.is_parse_too_large() {
                true => Self::new(
                    Cause::LongHead,
                    "the server's answer begins with more headers than are read".into(),
                ),
                false => Self::new(
                    Cause::Invalid,
                    format!("the answer is not valid HTTP: {text}"),
                ),
            };
        }
        let cause = match is_broken {
            true => Cause::Broken,
            false if error.is_timeout() && !error.is_connect() => Cause::Silent,
            false => Cause::Unreachable,
        };
        let text = match error.is_timeout() && error.is_connect() {
            true => "no connection was made in time".into(),
            false => text,
        };
        Self::new(
            cause,
            match proxy {
                Some(proxy) => format!(
                    "cannot be reached through {proxy}: {text}; check the proxy, or add the host \
                     to NO_PROXY"
                ),
                None => format!("cannot be reached: {text}"),
            },
        )
    }
}

/// Returns whether the body of a response breaks the rules of HTTP, as opposed to being
/// cut off.
#[must_use]
pub fn is_invalid_body(error: &reqwest::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput};
    let kind = find::<io::Error>(error).map(io::Error::kind);
    matches!(kind, Some(InvalidData | InvalidInput))
}

/// Returns the innermost reason for an error. The outer ones contain the URL, with its
/// secrets.
#[must_use]
pub fn reason(error: &(dyn StdError + 'static)) -> String {
    let mut innermost = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    innermost.to_string()
}

/// Returns the innermost error of type `T` among `error` and its sources.
fn find<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    let mut found = None;
    let mut current = Some(error);
    while let Some(cause) = current {
        found = cause.downcast_ref().or(found);
        current = cause.source();
    }
    found
}
