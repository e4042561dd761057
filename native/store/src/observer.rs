//! Being told of requests.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http_body::{Body, Frame, SizeHint};
use object_store::client::{HttpError, HttpRequest, HttpResponse, HttpResponseBody, HttpService};
use reqwest::StatusCode;
use zstn_net::{proxy, tls};

/// A request to a store, or to the service that gives its credentials, that has
/// ended. It has neither headers nor the query of the address, which may be a
/// signature.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FinishedRequest {
    /// `GET`, `HEAD`, `PUT` and so on.
    pub method: String,
    /// Host, and port if the address names one.
    pub host: String,
    /// Path of the address.
    pub path: String,
    /// The range that was asked for, as in the header: `bytes=0-99`.
    pub range: Option<String>,
    /// Status of the answer; `None` if there was none.
    pub status: Option<u16>,
    /// Length of the body that was to be sent.
    pub sent_bytes: u64,
    /// Bytes of the answer's body that were read.
    pub received_bytes: u64,
    /// Time from its beginning to its end.
    pub elapsed: Duration,
}

type Told = dyn Fn(&FinishedRequest) + Send + Sync;

/// Is told of every request when it has ended, repeated ones included. Two are
/// equal if one is a clone of the other.
#[derive(Clone)]
pub struct Observer(Arc<Told>);

impl Observer {
    /// Returns an observer that calls `told`, from any thread.
    pub fn new(told: impl Fn(&FinishedRequest) + Send + Sync + 'static) -> Self {
        Self(Arc::new(told))
    }
}

impl PartialEq for Observer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Observer {}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// A client whose requests an observer may be told of.
#[derive(Debug)]
pub(crate) struct Observed {
    client: reqwest::Client,
    observer: Option<Observer>,
}

impl Observed {
    pub(crate) fn new(client: reqwest::Client, observer: Option<Observer>) -> Self {
        Self { client, observer }
    }
}

type Answering<'a> = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'a>>;

impl HttpService for Observed {
    // What the library's macro makes of an asynchronous function.
    fn call<'s, 'a>(&'s self, request: HttpRequest) -> Answering<'a>
    where
        's: 'a,
        Self: 'a,
    {
        let observer = self.observer.as_ref();
        let in_flight = observer.map(|observer| InFlight::new(&request, observer));
        Box::pin(async move {
            let target = request.uri().to_string();
            let answer = self.client.call(request).await;
            let answer = answer.map_err(|error| explained(&error, &target))?;
            let (mut parts, mut body) = answer.into_parts();
            if let Some(mut in_flight) = in_flight {
                in_flight.request.status = Some(parts.status.as_u16());
                body = HttpResponseBody::new(ObservedBody { body, in_flight });
            }
            // The library repeats requests that are answered by any status from 500
            // on, with all that they upload. This one will never be answered
            // otherwise.
            if parts.status == StatusCode::NOT_IMPLEMENTED {
                parts.status = StatusCode::METHOD_NOT_ALLOWED;
            }
            Ok(HttpResponse::from_parts(parts, body))
        })
    }
}

/// Why there is no answer, in one sentence for people.
#[derive(Debug)]
struct Unanswered(String);

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unanswered {}

/// Adds to a failure which proxy is on the way, and what helps where a certificate
/// is not trusted. The innermost reason has no address in it.
fn explained(error: &HttpError, target: &str) -> HttpError {
    let mut reason = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        reason = inner.to_string();
        cause = inner.source();
    }
    if reason.contains("invalid peer certificate") {
        reason.push_str(&tls::Roots::of_process().advice());
    } else if let Some(proxy) = proxy::describe_for(target) {
        reason.push_str(&format!(" (through {proxy})"));
    }
    HttpError::new(error.kind(), Unanswered(reason))
}

/// A request that is being watched; it ends when this is dropped.
struct InFlight {
    observer: Observer,
    started: Instant,
    request: FinishedRequest,
}

impl InFlight {
    fn new(request: &HttpRequest, observer: &Observer) -> Self {
        let uri = request.uri();
        let host = uri.host().unwrap_or_default();
        let range = request.headers().get("range");
        Self {
            observer: observer.clone(),
            started: Instant::now(),
            request: FinishedRequest {
                method: request.method().to_string(),
                host: match uri.port_u16() {
                    Some(port) => format!("{host}:{port}"),
                    None => host.into(),
                },
                path: uri.path().into(),
                range: range.and_then(|range| Some(range.to_str().ok()?.to_owned())),
                status: None,
                sent_bytes: request.body().content_length() as u64,
                received_bytes: 0,
                elapsed: Duration::ZERO,
            },
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.request.elapsed = self.started.elapsed();
        (self.observer.0)(&self.request);
    }
}

/// The body of an answer, which counts what is read of it.
struct ObservedBody {
    body: HttpResponseBody,
    in_flight: InFlight,
}

impl Body for ObservedBody {
    type Data = <HttpResponseBody as Body>::Data;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, HttpError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(bytes) = frame.data_ref()
        {
            self.in_flight.request.received_bytes += bytes.len() as u64;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
