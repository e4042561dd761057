//! Responses of all sites: short texts, refusals, and the headers for pages of other
//! origins.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;

use super::access::Reader;

/// The methods with which files can be requested.
pub const METHODS: &str = "GET, HEAD";

/// The headers that pages of other origins may send.
pub const REQUEST_HEADERS: &str =
    "authorization, range, if-match, if-none-match, if-range, if-unmodified-since";

/// The response headers that pages of other origins may read.
pub const EXPOSED_HEADERS: &str =
    "accept-ranges, content-length, content-range, etag, last-modified";

/// Sets a header, unless the value contains characters that headers cannot have.
pub fn insert(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::try_from(value) {
        response.headers_mut().insert(name, value);
    }
}

/// Returns a response with a line of text, and the length of its body.
pub fn plain(status: StatusCode, text: &str) -> (Response, u64) {
    text_of("text/plain; charset=utf-8", status, format!("{text}\n"))
}

/// Returns a response with an HTML page, and the length of its body.
pub(super) fn page(html: String) -> (Response, u64) {
    text_of("text/html; charset=utf-8", StatusCode::OK, html)
}

fn text_of(content_type: &'static str, status: StatusCode, text: String) -> (Response, u64) {
    let len = text.len() as u64;
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static(content_type);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    (response, len)
}

/// Returns a response without a body.
pub(super) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// Refuses a request whose method is neither GET nor HEAD.
pub fn method_not_allowed() -> (Response, u64) {
    let (mut response, len) = plain(
        StatusCode::METHOD_NOT_ALLOWED,
        "only GET and HEAD are allowed",
    );
    insert(&mut response, header::ALLOW, "GET, HEAD");
    (response, len)
}

/// Answers an OPTIONS request with the allowed methods. The answer to a preflight from
/// an allowed origin also lists the `headers` that the page may send.
pub fn options(
    reader: &Reader,
    asked: &HeaderMap,
    methods: &str,
    headers: &str,
) -> (Response, u64) {
    let mut response = match reader {
        Reader::Foreign(_) if asked.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) => {
            return plain(
                StatusCode::FORBIDDEN,
                "pages of this origin may not read from here",
            );
        }
        _ => empty(StatusCode::NO_CONTENT),
    };
    insert(&mut response, header::ALLOW, &format!("{methods}, OPTIONS"));
    if !matches!(reader, Reader::Allowed(_)) {
        return (response, 0);
    }
    for (name, value) in [
        (header::ACCESS_CONTROL_ALLOW_METHODS, methods),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, headers),
        (header::ACCESS_CONTROL_MAX_AGE, "86400"),
    ] {
        insert(&mut response, name, value);
    }
    // Browsers send this before a public page accesses a local network.
    let local = HeaderName::from_static("access-control-request-private-network");
    if asked.contains_key(local) {
        let name = HeaderName::from_static("access-control-allow-private-network");
        insert(&mut response, name, "true");
    }
    (response, 0)
}

/// Adds the headers that all answers about files have. `varies` states whether the
/// answer depends on the request's origin.
pub(super) fn common(headers: &mut HeaderMap, reader: &Reader, varies: bool) {
    for (name, value) in [
        (header::ACCEPT_RANGES, "bytes"),
        (header::CACHE_CONTROL, "no-cache"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    allow(headers, reader, varies, EXPOSED_HEADERS);
}

/// Adds the headers that let a page of an allowed origin read the answer and its headers
/// `exposed`. `varies` states whether the answer depends on the request's origin.
pub fn allow(headers: &mut HeaderMap, reader: &Reader, varies: bool, exposed: &'static str) {
    if varies {
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
    }
    if let Reader::Allowed(origin) = reader {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        let exposed = HeaderValue::from_static(exposed);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    }
}
