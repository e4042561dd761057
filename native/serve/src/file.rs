//! Answers with the bytes of a file: preconditions, byte ranges, and the headers that
//! describe the file (RFC 9110, sections 13 and 14).

use std::fs::Metadata;
use std::io::{Result, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, SystemTime};

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use headers::{
    ContentLength, ContentType, ETag, HeaderMapExt, IfModifiedSince, IfUnmodifiedSince,
    LastModified,
};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio_util::io::ReaderStream;

use super::answer::{empty, insert, plain};
use zstn::source::{FileSource, Source};

/// Minimum age of a modification time that identifies a single version of a file. The
/// file may still change again within the same second as a more recent time.
const STRONG_DATE: Duration = Duration::from_secs(2);

/// Returns the answer to a request for the file at `path`, and the length of its body.
pub(super) async fn send(path: &Path, request: &Parts) -> Result<(Response, u64)> {
    let mut file = File::open(path).await?;
    let version = Version::of(&file.metadata().await?);
    let about = About {
        len_bytes: version.len_bytes,
        tag: version.tag(""),
        modified: Some(version.modified),
        content_type: ContentType::from(mime_guess::from_path(path).first_or_octet_stream()),
    };
    let (mut response, body) = begin(&about, request);
    let Some(range) = body else {
        return Ok((response, 0));
    };
    let len = range.end - range.start;
    file.seek(SeekFrom::Start(range.start)).await?;
    let stream = ReaderStream::with_capacity(file.take(len), 256 << 10);
    *response.body_mut() = Body::from_stream(stream);
    Ok((response, len))
}

/// The version of a file, which changes when the file is modified or replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) len_bytes: u64,
    pub(super) modified: SystemTime,
}

impl Version {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            len_bytes: metadata.len(),
            modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
        }
    }

    /// Returns the version of an opened file.
    pub(super) fn of_source(source: &FileSource) -> Self {
        Self {
            len_bytes: source.len_bytes(),
            modified: source.modified().unwrap_or(SystemTime::UNIX_EPOCH),
        }
    }

    /// Returns an ETag made from length and modification time. That is sufficient for
    /// files that are replaced, as finished models are, rather than edited in place.
    /// `suffix`, of letters and digits, distinguishes derived content from the file
    /// itself.
    pub(super) fn tag(&self, suffix: &str) -> ETag {
        let nanos = self
            .modified
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos());
        format!("\"{:x}-{nanos:x}{suffix}\"", self.len_bytes)
            .parse()
            .expect("hex digits make an ETag")
    }
}

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
            "the file is not the version that the request names: it was changed",
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

/// The part of a file to send.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Whole,
    None,
    Some(Range<u64>),
}

/// Returns the part of a file of `len` bytes that a request selects. A malformed or
/// repeated `Range` header is ignored. Ranges that select no bytes are left out; if
/// several ranges remain, the whole file is sent, which the RFC permits, and if none
/// remains, the result is [`Wanted::None`].
fn wanted(headers: &HeaderMap, len: u64) -> Wanted {
    let mut values = headers.get_all(header::RANGE).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        // Several `Range` headers are not a list, so they are ignored.
        return Wanted::Whole;
    };
    let Some(ranges) = ranges(value, len) else {
        return Wanted::Whole;
    };
    let mut satisfiable = ranges.into_iter().flatten();
    match (satisfiable.next(), satisfiable.next()) {
        (None, _) => Wanted::None,
        (Some(range), None) => Wanted::Some(range),
        _ => Wanted::Whole,
    }
}

/// Returns the ranges of a `Range` header, or `None` if it is malformed or not in bytes.
/// A range that selects no bytes of the file is `None` in the list.
fn ranges(value: &HeaderValue, len: u64) -> Option<Vec<Option<Range<u64>>>> {
    let (unit, set) = value.to_str().ok()?.split_once('=')?;
    if !unit.eq_ignore_ascii_case("bytes") {
        return None;
    }
    let is_space = |character| [' ', '\t'].contains(&character);
    // Lists may contain empty elements.
    let specs = set.split(',').map(|spec| spec.trim_matches(is_space));
    let specs = specs.filter(|spec| !spec.is_empty());
    let ranges: Vec<_> = specs.map(|spec| range(spec, len)).collect::<Option<_>>()?;
    (!ranges.is_empty()).then_some(ranges)
}

/// Parses one range of a `Range` header. Returns `None` if it is malformed, and
/// `Some(None)` if it selects no bytes of the file.
fn range(spec: &str, len: u64) -> Option<Option<Range<u64>>> {
    let (first, last) = spec.split_once('-')?;
    let range = match (number(first), number(last)) {
        (Some(first), Some(last)) if is_at_most(first, last) => {
            saturated(first)..saturated(last).saturating_add(1).min(len)
        }
        (Some(first), None) if last.is_empty() => saturated(first)..len,
        (None, Some(suffix)) if first.is_empty() => len.saturating_sub(saturated(suffix))..len,
        _ => return None,
    };
    Some((!range.is_empty()).then_some(range))
}

/// Returns the digits of a number without leading zeros.
fn number(text: &str) -> Option<&str> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.trim_start_matches('0'))
}

/// Compares decimal numbers of any length.
fn is_at_most(first: &str, last: &str) -> bool {
    (first.len(), first) <= (last.len(), last)
}

fn saturated(digits: &str) -> u64 {
    match digits {
        "" => 0,
        digits => digits.parse().unwrap_or(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_the_rfc() {
        let some = Wanted::Some;
        for (value, expected) in [
            ("bytes=0-0", some(0..1)),
            ("bytes=2-5", some(2..6)),
            ("BYTES=2-5", some(2..6)),
            ("bytes=002-05", some(2..6)),
            ("bytes=9-", some(9..10)),
            ("bytes=9-9", some(9..10)),
            ("bytes=9-10", some(9..10)),
            ("bytes=-3", some(7..10)),
            ("bytes=-10", some(0..10)),
            ("bytes=-11", some(0..10)),
            ("bytes=-18446744073709551616", some(0..10)),
            ("bytes=0-18446744073709551615", some(0..10)),
            ("bytes=1-99999999999999999999999999", some(1..10)),
            ("bytes=, ,0-1 ,", some(0..2)),
            ("bytes=\t0-1", some(0..2)),
            ("bytes=0-1,20-30", some(0..2)),
            ("bytes=20-30,-1", some(9..10)),
            ("bytes=10-", Wanted::None),
            ("bytes=10-11", Wanted::None),
            ("bytes=-0", Wanted::None),
            ("bytes=-0,10-", Wanted::None),
            ("bytes=18446744073709551615-", Wanted::None),
            (
                "bytes=99999999999999999999999-99999999999999999999999",
                Wanted::None,
            ),
            ("bytes=0-1,3-4", Wanted::Whole),
            ("bytes=0-,0-", Wanted::Whole),
            ("bytes=5-3", Wanted::Whole),
            (
                "bytes=99999999999999999999999-99999999999999999999998",
                Wanted::Whole,
            ),
            ("bytes=0-1,5-3", Wanted::Whole),
            ("bytes=", Wanted::Whole),
            ("bytes=,", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("bytes=--1", Wanted::Whole),
            ("bytes=+1-2", Wanted::Whole),
            ("bytes=1 -2", Wanted::Whole),
            ("bytes=0x1-2", Wanted::Whole),
            ("bytes =0-1", Wanted::Whole),
            ("bytes:0-1", Wanted::Whole),
            ("items=0-1", Wanted::Whole),
            ("0-1", Wanted::Whole),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::RANGE, HeaderValue::from_str(value).unwrap());
            assert_eq!(wanted(&headers, 10), expected, "{value}");
            headers.append(header::RANGE, HeaderValue::from_static("bytes=0-1"));
            assert_eq!(wanted(&headers, 10), Wanted::Whole, "{value}");
        }
        let mut headers = HeaderMap::new();
        assert_eq!(wanted(&headers, 10), Wanted::Whole);
        for value in ["bytes=0-", "bytes=-1", "bytes=0-0"] {
            headers.insert(header::RANGE, HeaderValue::from_static(value));
            assert_eq!(wanted(&headers, 0), Wanted::None, "{value}");
        }
    }
}
