//! Reports every finished request to a store, retries included, to a function of the
//! caller.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http_body::{Body, Frame, SizeHint};
use object_store::client::{HttpError, HttpRequest, HttpResponse, HttpResponseBody, HttpService};
use reqwest::StatusCode;
use zstn_net::{client, proxy, tls};

/// A finished request to a store, or to the service that provides its credentials. It
/// contains neither headers nor the query of the URL, which may be a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FinishedRequest {
    /// HTTP method, such as `GET`, `HEAD` or `PUT`.
    pub method: String,
    /// Host of the URL, with the port if the URL contains one.
    pub host: String,
    /// Path of the URL.
    pub path: String,
    /// The requested range, as in the header: `bytes=0-99`.
    pub range: Option<String>,
    /// Status of the response; `None` if there was no response.
    pub status: Option<u16>,
    /// Length of the request's body in bytes.
    pub sent_bytes: u64,
    /// Bytes read from the body of the response.
    pub received_bytes: u64,
    /// Time from the start of the request until its response has been read or dropped.
    pub elapsed: Duration,
}

type Told = dyn Fn(&FinishedRequest) + Send + Sync;

/// Receives every finished request, retries included. Two observers are equal if one is
/// a clone of the other.
#[derive(Clone)]
pub struct Observer(Arc<Told>);

impl Observer {
    /// Returns an observer that calls the function `told` from any thread.
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

/// An HTTP client that reports its requests to an observer, if it has one.
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
    // The signature that the `async_trait` macro of the trait generates.
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
            // The `object_store` crate retries requests that are answered with status
            // 500 or above, and repeats their uploads. Repeating this one cannot
            // succeed, so its status is changed to one that is not retried.
            if parts.status == StatusCode::NOT_IMPLEMENTED {
                parts.status = StatusCode::METHOD_NOT_ALLOWED;
            }
            Ok(HttpResponse::from_parts(parts, body))
        })
    }
}

/// The reason why there is no response, as one sentence for error messages.
#[derive(Debug)]
struct Unanswered(String);

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unanswered {}

/// Adds to an error which proxy was used, or how to trust a certificate. Only the
/// innermost reason is kept, because the outer ones contain the URL.
fn explained(error: &HttpError, target: &str) -> HttpError {
    let mut reason = client::reason(error);
    if reason.contains("invalid peer certificate") {
        reason.push_str(&tls::Roots::of_process().advice());
    } else if let Some(proxy) = proxy::describe_for(target) {
        reason.push_str(&format!(" (through {proxy})"));
    }
    HttpError::new(error.kind(), Unanswered(reason))
}

/// A request in flight; dropping the value reports it to the observer.
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

/// The body of a response, which counts the bytes read from it.
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
