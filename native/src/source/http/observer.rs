//! Reports finished requests to an observer that the caller has set.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Request, StatusCode, Uri, header};
use zstn_net::target::{self, Target};

use super::HttpOptions;

/// Observes the requests to web servers, hubs and object stores. It is called when a
/// request has ended, from any thread.
pub trait HttpObserver: Send + Sync {
    /// Called when a request has ended, because its response was read or abandoned. A
    /// redirect or a retry is reported as another request.
    fn request(&self, request: &HttpRequest);

    /// Called when a file was read as a whole because its server ignores ranges. `file`
    /// is its host and path, and `len_bytes` its length.
    fn read_whole(&self, file: &str, len_bytes: u64) {
        let _ = (file, len_bytes);
    }
}

/// A request that has ended. It contains no secrets: neither headers nor the query of
/// the address, which may be a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpRequest {
    /// The method, such as `GET`, `HEAD` or `PUT`.
    pub method: String,
    /// The host, followed by the port if the address contains one.
    pub host: String,
    /// The path of the address.
    pub path: String,
    /// The requested range, as in the header: `bytes=0-99`.
    pub range: Option<String>,
    /// The status of the response; `None` if there was no response.
    pub status: Option<u16>,
    /// The length of the request body in bytes, whether or not all of it was sent.
    pub sent_bytes: u64,
    /// The number of bytes that were read from the response body.
    pub received_bytes: u64,
    /// The time from the start of the request to its end.
    pub elapsed: Duration,
    /// The number of the attempt, from 1. Requests to object stores always have 1,
    /// because stores do not report attempts.
    pub attempt: u32,
}

/// A shared handle to the caller's observer, as stored in the options.
#[derive(Clone)]
pub(super) struct Observer(Arc<Told>);

struct Told {
    told: Arc<dyn HttpObserver>,
    /// The adapter for stores. It is created once, because connections are shared
    /// between options that are equal.
    #[cfg(feature = "store")]
    stores: zstn_store::Observer,
}

impl Observer {
    pub(super) fn new(told: Arc<dyn HttpObserver>) -> Self {
        Self(Arc::new(Told {
            #[cfg(feature = "store")]
            stores: {
                let told = Arc::clone(&told);
                zstn_store::Observer::new(move |request| told.request(&request.into()))
            },
            told,
        }))
    }

    #[cfg(feature = "store")]
    pub(super) fn of_stores(&self) -> &zstn_store::Observer {
        &self.0.stores
    }

    /// Reports that a file was read as a whole.
    pub(super) fn read_whole(&self, url: &str, len_bytes: u64) {
        let shown = match target::parse(url) {
            Ok(Target { uri, .. }) => format!("{}{}", host(&uri), uri.path()),
            Err(_) => String::new(),
        };
        self.0.told.read_whole(&shown, len_bytes);
    }

    /// Begins to observe a request.
    pub(super) fn begin<B>(&self, request: &Request<B>, attempt: u32) -> Box<InFlight> {
        let uri = request.uri();
        let text = |name| Some(request.headers().get(name)?.to_str().ok()?.to_owned());
        Box::new(InFlight {
            told: Arc::clone(&self.0.told),
            started: Instant::now(),
            request: HttpRequest {
                method: request.method().to_string(),
                host: host(uri),
                path: uri.path().into(),
                range: text(header::RANGE),
                status: None,
                sent_bytes: text(header::CONTENT_LENGTH)
                    .and_then(|len| len.parse().ok())
                    .unwrap_or_default(),
                received_bytes: 0,
                elapsed: Duration::ZERO,
                attempt,
            },
        })
    }
}

impl HttpOptions {
    /// Reports every request to `observer`, including requests to object stores,
    /// redirects and retries.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn HttpObserver>) -> Self {
        self.observer = Some(Observer::new(observer));
        self
    }

    /// Returns the observer for requests to stores.
    #[cfg(feature = "store")]
    pub(in crate::source) fn observer_of_stores(&self) -> Option<zstn_store::Observer> {
        Some(self.observer.as_ref()?.of_stores().clone())
    }
}

/// Returns the host of an address, without a user and password before it, and the port
/// if there is one.
fn host(uri: &Uri) -> String {
    let host = uri.host().unwrap_or_default();
    match uri.port_u16() {
        Some(port) => format!("{host}:{port}"),
        None => host.into(),
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// A request that is being observed. The observer is called when this is dropped.
pub(super) struct InFlight {
    told: Arc<dyn HttpObserver>,
    started: Instant,
    request: HttpRequest,
}

impl InFlight {
    pub(super) fn answered(&mut self, status: StatusCode) {
        self.request.status = Some(status.as_u16());
    }

    pub(super) fn received(&mut self, len_bytes: usize) {
        self.request.received_bytes += len_bytes as u64;
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.request.elapsed = self.started.elapsed();
        self.told.request(&self.request);
    }
}

impl fmt::Debug for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.request.fmt(f)
    }
}

#[cfg(feature = "store")]
impl From<&zstn_store::FinishedRequest> for HttpRequest {
    fn from(request: &zstn_store::FinishedRequest) -> Self {
        Self {
            method: request.method.clone(),
            host: request.host.clone(),
            path: request.path.clone(),
            range: request.range.clone(),
            status: request.status,
            sent_bytes: request.sent_bytes,
            received_bytes: request.received_bytes,
            elapsed: request.elapsed,
            attempt: 1,
        }
    }
}
