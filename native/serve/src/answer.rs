//! Answers: short ones, and how one about a file begins, wherever its bytes
//! come from.

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

/// The methods by which files are read.
pub const METHODS: &str = "GET, HEAD";

/// The headers that requests for files may have.
pub const REQUEST_HEADERS: &str =
    "authorization, range, if-match, if-none-match, if-range, if-unmodified-since";

/// The headers of answers that pages may read.
pub const EXPOSED_HEADERS: &str =
    "accept-ranges, content-length, content-range, etag, last-modified";

/// A file has only one version with a date of change that is longer ago than that.
const STRONG_DATE: Duration = Duration::from_secs(2);

/// The headers about a file.
pub struct About {
    pub len_bytes: u64,
    pub tag: ETag,
    pub modified: Option<SystemTime>,
    pub content_type: ContentType,
}

/// The answer to a request about a file but for its body, and the bytes of
/// the file that are to be the body, if any.
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

/// Returns whether a file is the version that a request is limited to (RFC 9110,
/// 13.2.2). A condition that cannot be parsed is not met; an invalid date is
/// ignored.
fn is_the_one(about: &About, asked: &HeaderMap) -> bool {
    if asked.contains_key(header::IF_MATCH) {
        return has_tag(asked, header::IF_MATCH, &about.tag, false);
    }
    asked
        .typed_get::<IfUnmodifiedSince>()
        .zip(about.modified)
        .is_none_or(|(header, modified)| header.precondition_passes(modified))
}

/// Returns whether a list of tags has `tag`, or is `*`. A weak tag in the list counts if
/// `weak` says so. What follows something that is no tag is ignored.
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

/// Returns whether the client has the file already. Dates count only without tags.
fn is_known(about: &About, asked: &HeaderMap) -> bool {
    if asked.contains_key(header::IF_NONE_MATCH) {
        return has_tag(asked, header::IF_NONE_MATCH, &about.tag, true);
    }
    asked
        .typed_get::<IfModifiedSince>()
        .zip(about.modified)
        .is_some_and(|(header, modified)| !header.is_modified(modified))
}

/// Returns whether a part of the file may be sent, as `If-Range` demands: its tag has to
/// be the file's, and a strong one. A date has to be exactly that of the last change,
/// which has to be so long ago that no other version can have the same date. A header
/// that cannot be understood forbids parts.
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

/// Answers which methods are allowed; for a preflight of a page on another
/// origin, with the `headers` that it may send.
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
    // Browsers ask so before a public page reaches into a local network.
    let local = HeaderName::from_static("access-control-request-private-network");
    if asked.contains_key(local) {
        let name = HeaderName::from_static("access-control-allow-private-network");
        insert(&mut response, name, "true");
    }
    (response, 0)
}

/// Adds the headers of every answer about files. `varies` says that it depends on
/// the origin of the page that asks.
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

/// Lets pages that may do so read an answer with the headers `exposed`.
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
