//! Builds HTTP responses: short texts, and the status and headers of responses that carry
//! bytes of a file.

use std::ops::Range;
use std::time::{Duration, SystemTime};

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use headers::{
    ContentLength, ContentType, ETag, HeaderMapExt, IfModifiedSince, IfUnmodifiedSince,
    LastModified,
};

use super::access::Reader;
use super::range::{Wanted, wanted};

/// The methods with which files can be requested.
pub const METHODS: &str = "GET, HEAD";

/// The headers that pages of other origins may send.
pub const REQUEST_HEADERS: &str =
    "authorization, range, if-match, if-none-match, if-range, if-unmodified-since";

/// The response headers that pages of other origins may read.
pub const EXPOSED_HEADERS: &str =
    "accept-ranges, content-length, content-range, etag, last-modified";

/// Minimum age of a modification time that identifies a single version of a file. The
/// file may still change again within the same second as a more recent time.
const STRONG_DATE: Duration = Duration::from_secs(2);

/// The properties of a file that its response headers describe.
pub struct About {
    pub len_bytes: u64,
    pub tag: ETag,
    pub modified: Option<SystemTime>,
    pub content_type: ContentType,
}

/// Returns the response to a request for a file, without its body, and the byte range
/// of the file to send as the body, if any.
pub fn begin(about: &About, request: &Parts) -> (Response, Option<Range<u64>>) {
    let asked = &request.headers;
    let modified = about.modified.map(LastModified::from);
    let len = about.len_bytes;
    if !is_the_one(about, asked) {
        let (mut response, _) = plain(
            StatusCode::PRECONDITION_FAILED,
            "the file is not the one that the request is about: it was changed",
        );
        response.headers_mut().typed_insert(about.tag.clone());
        return (response, None);
    }
    if is_known(about, asked) {
        let mut response = empty(StatusCode::NOT_MODIFIED);
        response.headers_mut().typed_insert(about.tag.clone());
        return (response, None);
    }
    let wanted = match request.method == Method::GET && may_be_part(about, asked) {
        true => wanted(asked, len),
        false => Wanted::Whole,
    };
    let mut response = empty(StatusCode::OK);
    let range = match wanted {
        Wanted::Whole => 0..len,
        Wanted::None => {
            *response.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
            insert(
                &mut response,
                header::CONTENT_RANGE,
                &format!("bytes */{len}"),
            );
            return (response, None);
        }
        Wanted::Some(range) => {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            let part = format!("bytes {}-{}/{len}", range.start, range.end - 1);
            insert(&mut response, header::CONTENT_RANGE, &part);
            range
        }
    };
    let headers = response.headers_mut();
    headers.typed_insert(about.content_type.clone());
    headers.typed_insert(ContentLength(range.end - range.start));
    if let Some(modified) = modified {
        headers.typed_insert(modified);
    }
    headers.typed_insert(about.tag.clone());
    let wants_body = request.method != Method::HEAD;
    (response, wants_body.then_some(range))
}

/// Evaluates the preconditions `If-Match` and `If-Unmodified-Since` (RFC 9110, 13.2.2).
/// A list of tags that cannot be parsed does not match; an invalid date is ignored.
fn is_the_one(about: &About, asked: &HeaderMap) -> bool {
    if asked.contains_key(header::IF_MATCH) {
        return has_tag(asked, header::IF_MATCH, &about.tag, false);
    }
    asked
        .typed_get::<IfUnmodifiedSince>()
        .zip(about.modified)
        .is_none_or(|(header, modified)| header.precondition_passes(modified))
}

/// Returns whether a list of tags contains `tag` or is `*`. Weak tags in the list match
/// only if `weak` is set. Everything after a malformed tag is ignored.
fn has_tag(asked: &HeaderMap, name: HeaderName, tag: &ETag, weak: bool) -> bool {
    let mut own = HeaderMap::new();
    own.typed_insert(tag.clone());
    let own = own
        .get(header::ETAG)
        .map_or(&b""[..], HeaderValue::as_bytes);
    asked.get_all(name).iter().any(|value| {
        let mut rest = value.as_bytes().trim_ascii();
        if rest == b"*" {
            return true;
        }
        loop {
            while let [b',' | b' ' | b'\t', after @ ..] = rest {
                rest = after;
            }
            let is_weak = rest.starts_with(b"W/");
            let found = if is_weak { &rest[2..] } else { rest };
            let [b'"', after @ ..] = found else {
                return false;
            };
            let Some(end) = after.iter().position(|byte| *byte == b'"') else {
                return false;
            };
            if &found[..end + 2] == own && (weak || !is_weak) {
                return true;
            }
            rest = &after[end + 1..];
        }
    })
}

/// Returns whether the client already has this version. Dates are ignored if the
/// request has tags.
fn is_known(about: &About, asked: &HeaderMap) -> bool {
    if asked.contains_key(header::IF_NONE_MATCH) {
        return has_tag(asked, header::IF_NONE_MATCH, &about.tag, true);
    }
    asked
        .typed_get::<IfModifiedSince>()
        .zip(about.modified)
        .is_some_and(|(header, modified)| !header.is_modified(modified))
}

/// Evaluates `If-Range`: returns whether a part of the file may be sent. A tag has to
/// be strong and equal to the file's tag. A date has to be exactly the modification
/// time, which has to be old enough to identify a single version. A malformed header
/// forbids partial answers.
fn may_be_part(about: &About, asked: &HeaderMap) -> bool {
    let mut values = asked.get_all(header::IF_RANGE).iter();
    let value = match (values.next(), values.next()) {
        (None, _) => return true,
        (Some(value), None) => value,
        _ => return false,
    };
    let Ok(text) = value.to_str() else {
        return false;
    };
    if text.starts_with('"') || text.starts_with("W/") {
        let mut tag = HeaderMap::new();
        tag.typed_insert(about.tag.clone());
        return !text.starts_with("W/") && tag.get(header::ETAG) == Some(value);
    }
    let (Ok(date), Some(modified)) = (httpdate::parse_http_date(text), about.modified) else {
        return false;
    };
    let seconds = |time: SystemTime| {
        let since = time.duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, |since| since.as_secs())
    };
    let age = SystemTime::now().duration_since(modified);
    let is_strong = age.is_ok_and(|age| age >= STRONG_DATE);
    is_strong && seconds(date) == seconds(modified)
}

fn insert(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::try_from(value) {
        response.headers_mut().insert(name, value);
    }
}

pub fn plain(status: StatusCode, text: &str) -> (Response, u64) {
    text_of("text/plain; charset=utf-8", status, format!("{text}\n"))
}

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

fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

pub fn method_not_allowed() -> (Response, u64) {
    let (mut response, len) = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD");
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

/// Allows an allowed origin to read the answer and its headers `exposed`.
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
