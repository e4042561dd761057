//! Accepts connections; parses requests and reads their bodies; writes responses and
//! refusals.

use std::convert::Infallible;
use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use axum::body::{Body, Bytes, to_bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use axum::response::Response;
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::sync::watch;

use super::Hub;
use super::fault::LoggedRequest;

/// A server on its own threads, which stops when dropped.
#[derive(Debug)]
pub(super) struct Server {
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(super) fn start(listener: TcpListener, hub: Arc<Hub>) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        listener.set_nonblocking(true)?;
        let (stop, mut stopped) = watch::channel(false);
        let thread = thread::spawn(move || {
            runtime.block_on(async {
                let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
                    return;
                };
                tokio::select! {
                    _ = stopped.wait_for(|stop| *stop) => {}
                    () = accept(&listener, &hub) => {}
                }
            });
            runtime.shutdown_background();
        });
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: &tokio::net::TcpListener, hub: &Arc<Hub>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let hub = Arc::clone(hub);
        let service = service_fn(move |request| {
            let hub = Arc::clone(&hub);
            async move { Ok::<_, Infallible>(answer(&hub, request).await) }
        });
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

async fn answer(hub: &Arc<Hub>, request: Request<Incoming>) -> Response {
    let (parts, body) = request.into_parts();
    let received_bytes = body.size_hint().lower();
    let request = HubRequest::new(parts);
    if request.raw_path.starts_with("/_stub/") {
        let answer = hub.route(&request, body).await;
        return answer.unwrap_or_else(|refusal| refusal.response());
    }
    let fault = hub.faults.take(&request);
    let spoiled = match &fault {
        Some(fault) => fault.before().await,
        None => None,
    };
    let response = match spoiled {
        Some(response) => response,
        None => hub
            .route(&request, body)
            .await
            .unwrap_or_else(|refusal: Refusal| refusal.response()),
    };
    hub.log.add(LoggedRequest {
        method: request.method.to_string(),
        path: request.path(),
        query: request.raw_query.clone(),
        status: response.status().as_u16(),
        headers: request
            .headers
            .iter()
            .map(|(name, value)| {
                (
                    name.to_string(),
                    String::from_utf8_lossy(value.as_bytes()).into(),
                )
            })
            .collect(),
        received_bytes,
        sent_bytes: response
            .headers()
            .get(header::CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .unwrap_or_default(),
    });
    match fault {
        Some(fault) => fault.after(response),
        None => response,
    }
}

/// Maximum length in bytes of a body that is read into memory.
const BODY_BYTES: usize = 256 << 20;

/// A parsed request without its body.
#[derive(Debug)]
pub(super) struct HubRequest {
    pub(super) method: Method,
    /// The path, split at slashes and then decoded.
    pub(super) segments: Vec<String>,
    /// The path before decoding.
    pub(super) raw_path: String,
    pub(super) query: Vec<(String, String)>,
    pub(super) raw_query: String,
    pub(super) headers: HeaderMap,
}

impl HubRequest {
    pub(super) fn new(parts: Parts) -> Self {
        let raw_path = parts.uri.path().to_owned();
        let raw_query = parts.uri.query().unwrap_or_default().to_owned();
        Self {
            method: parts.method,
            segments: raw_path.trim_matches('/').split('/').map(decode).collect(),
            query: pairs(&raw_query),
            raw_path,
            raw_query,
            headers: parts.headers,
        }
    }

    /// Returns the decoded path.
    pub(super) fn path(&self) -> String {
        decode(&self.raw_path)
    }

    /// Returns the value of a query parameter.
    pub(super) fn parameter(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| &**value)
    }

    /// Returns whether a query parameter is present and not false.
    pub(super) fn has(&self, name: &str) -> bool {
        self.parameter(name)
            .is_some_and(|value| !["false", "False", "0"].contains(&value))
    }

    /// Returns the value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// Parses the key-value pairs of a query or a form.
pub(super) fn pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let plain = |text: &str| decode(&text.replace('+', " "));
            (plain(name), plain(value))
        })
        .collect()
}

fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Reads a body into memory.
pub(super) async fn read(body: Incoming) -> Result<Bytes, Refusal> {
    to_bytes(Body::new(body), BODY_BYTES)
        .await
        .map_err(|error| Refusal::bad_request(error.to_string()))
}

/// Reads a JSON body; an empty body is `null`.
pub(super) async fn read_json(body: Incoming) -> Result<Value, Refusal> {
    let body = read(body).await?;
    if body.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&body).map_err(|error| Refusal::bad_request(error.to_string()))
}

/// A refused request: the status, the `X-Error-Code` value, and a message.
#[derive(Debug, Clone)]
pub(super) struct Refusal {
    status: u16,
    code: &'static str,
    message: String,
}

impl Refusal {
    /// Creates a refusal. An empty `code` sends no `X-Error-Code` header.
    pub(super) fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
        }
    }

    pub(super) fn repo_not_found() -> Self {
        Self::new(404, "RepoNotFound", "Repository not found")
    }

    pub(super) fn revision_not_found(revision: &str) -> Self {
        let message = format!("Invalid rev id: {revision}");
        Self::new(404, "RevisionNotFound", message)
    }

    pub(super) fn entry_not_found() -> Self {
        Self::new(404, "EntryNotFound", "Entry not found")
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "", message)
    }

    pub(super) fn response(&self) -> Response {
        let mut response = json_response(&json!({ "error": self.message }));
        set_status(&mut response, self.status);
        set(&mut response, "x-error-message", &self.message);
        if !self.code.is_empty() {
            set(&mut response, "x-error-code", self.code);
        }
        response
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::new(500, "", error.to_string())
    }
}

pub(super) type Answer = Result<Response, Refusal>;

/// Returns a 200 response with a JSON body.
pub(super) fn json_response(value: &Value) -> Response {
    let mut response = bytes_response(value.to_string().into());
    set(&mut response, "content-type", "application/json");
    response
}

/// Returns a 200 response with these bytes as its body.
pub(super) fn bytes_response(body: Bytes) -> Response {
    let len = body.len();
    let mut response = Response::new(Body::from(body));
    response
        .headers_mut()
        .insert(header::CONTENT_LENGTH, HeaderValue::from(len));
    response
}

/// Returns a response with this status and an empty body.
pub(super) fn empty_response(status: u16) -> Response {
    let mut response = bytes_response(Bytes::new());
    set_status(&mut response, status);
    response
}

/// Sets the status; an invalid one becomes 500.
pub(super) fn set_status(response: &mut Response, status: u16) {
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
}

/// Sets a header. Values that are not allowed in a header are dropped.
pub(super) fn set(response: &mut Response, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response
            .headers_mut()
            .insert(HeaderName::from_static(name), value);
    }
}
