//! Requests that are passed to the hub unchanged.

use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, Request, header};
use axum::response::Response;
use futures_util::{StreamExt, TryStreamExt, stream};
use hyper::body::Incoming;

use super::{Hub, Refusal};

/// Headers that concern a single connection and are not passed on (RFC 9110, section
/// 7.6.1).
const OF_CONNECTION: [HeaderName; 9] = [
    header::CONNECTION,
    header::HOST,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
];

impl Hub {
    /// Passes a request to the hub and returns its answer. Fails if the client sends
    /// nothing of its body for the idle timeout.
    pub(in super::super) async fn pass(&self, request: Request<Incoming>) -> Response {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let url = format!("{}{path}", self.endpoint);
        let has_body = parts.headers.contains_key(header::CONTENT_LENGTH)
            || parts.headers.contains_key(header::TRANSFER_ENCODING);
        let mut sent = self.client.request(parts.method, url);
        sent = sent.headers(end_to_end(parts.headers));
        if has_body {
            sent = sent.body(reqwest::Body::wrap_stream(patient(
                body,
                self.http.idle_timeout,
            )));
        }
        let answer = match sent.send().await {
            Ok(answer) => answer,
            Err(error) => return Refusal::unanswered(&self.endpoint, &error).answer().0,
        };
        let (status, mut headers) = (answer.status(), end_to_end(answer.headers().clone()));
        // The gateway decides which pages may read answers.
        let names: Vec<_> = headers.keys().cloned().collect();
        for name in names {
            if name.as_str().starts_with("access-control-") {
                headers.remove(name);
            }
        }
        let bytes = answer.bytes_stream().map_ok(Bytes::from);
        let mut response = Response::new(Body::from_stream(bytes));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }
}

/// Returns the chunks of a body. Fails if a chunk takes longer than `limit` to arrive.
fn patient(body: Incoming, limit: Duration) -> impl futures_util::Stream<Item = io::Result<Bytes>> {
    let pieces = Body::new(body).into_data_stream();
    stream::try_unfold(pieces, move |mut pieces| async move {
        let next = tokio::time::timeout(limit, pieces.next()).await;
        let next = next.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
        let next = next.transpose().map_err(io::Error::other)?;
        Ok(next.map(|piece| (piece, pieces)))
    })
}

/// Removes the headers that concern a single connection.
fn end_to_end(mut headers: HeaderMap) -> HeaderMap {
    let named = headers.get_all(header::CONNECTION).iter();
    let named: Vec<String> = named
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .collect();
    for name in named {
        headers.remove(name.as_str());
    }
    for name in OF_CONNECTION {
        headers.remove(name);
    }
    headers
}
