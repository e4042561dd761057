//! Checks of invariants that hold for every request, for the fuzz target.

use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use headers::{ContentType, HeaderMapExt};
use serde_json::Value;

use super::json_array::JsonArray;
use super::path_rules::{check_name, paths};
use super::request::{Asked, info};
use zstn_serve::access::Access;
use zstn_serve::file::{About, begin};

/// File lengths with which ranges are checked.
const LENGTHS: [u64; 4] = [0, 1, 1000, u64::MAX];

/// Parses a request as the gateway does and checks the invariants. `request` consists
/// of a line with method and address, header lines, an empty line and a body; other
/// text is ignored.
///
/// # Panics
/// If an address built from a path leads to another file than the one that was checked,
/// or if the head of an answer contradicts itself.
pub fn check_request(request: &[u8]) {
    let (head, body) = match request.windows(2).position(|two| two == b"\n\n") {
        Some(end) => (&request[..end], &request[end + 2..]),
        None => (request, &[][..]),
    };
    if let Some(parts) = parse(head) {
        check_path(&parts);
        check_range(&parts);
        if let Ok((paths, _)) = paths(&parts, body) {
            for path in paths {
                let is_taken = check_name(path.trim_matches('/')).is_ok();
                assert!(!is_taken || path.split('/').all(|part| part != ".."));
            }
        }
        let access = Access::default();
        let _ = (access.check_host(&parts), access.reader(&parts.headers));
    }
    check_list(body);
}

fn parse(head: &[u8]) -> Option<Parts> {
    let mut lines = head.split(|byte| *byte == b'\n');
    let first = str::from_utf8(lines.next()?).ok()?;
    let (method, address) = first.split_once(' ')?;
    let mut request = Request::new(());
    *request.method_mut() = Method::from_bytes(method.as_bytes()).ok()?;
    *request.uri_mut() = address.parse().ok()?;
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(&line[..colon]).ok()?;
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii()).ok()?;
        request.headers_mut().append(name, value);
    }
    Some(request.into_parts().0)
}

/// Checks that an address built from a checked path leads to that path and no other.
fn check_path(parts: &Parts) {
    let Ok(asked) = Asked::of(&parts.method, &parts.uri) else {
        return;
    };
    let address = match &asked {
        Asked::File { revision, path } => revision.file(path),
        Asked::Tree { revision, folder } => revision.tree(folder),
        Asked::PathsInfo(revision) => revision.api("paths-info"),
        Asked::Info {
            repository,
            revision,
        } => info(repository, revision.as_deref()),
        Asked::Health | Asked::Metrics | Asked::Other => {
            let sent = reqwest::Url::parse(&format!("http://hub{}", parts.uri.path()));
            let count = |path: &str| path.split('/').count();
            if let Ok(sent) = sent {
                assert_eq!(sent.host_str(), Some("hub"));
                assert_eq!(count(sent.path()), count(parts.uri.path()));
            }
            return;
        }
    };
    let address = format!("/{address}");
    let sent = reqwest::Url::parse(&format!("http://hub{address}")).expect("an address");
    assert_eq!((sent.host_str(), sent.path()), (Some("hub"), &*address));
    let uri: Uri = address.parse().expect("an address");
    // Encoding can make a path too long; such a path is refused.
    if let Ok(again) = Asked::of(&parts.method, &uri) {
        assert_eq!(again, asked);
    }
}

/// Checks that the head of an answer about a file is consistent with itself and with
/// the request.
fn check_range(parts: &Parts) {
    for len_bytes in LENGTHS {
        let about = About {
            len_bytes,
            tag: "\"tag\"".parse().expect("a tag"),
            modified: None,
            content_type: ContentType::octet_stream(),
        };
        let (response, body) = begin(&about, parts);
        let len: Option<headers::ContentLength> = response.headers().typed_get();
        match response.status() {
            StatusCode::OK => assert_eq!(len.map(|len| len.0), Some(len_bytes)),
            StatusCode::PARTIAL_CONTENT => {
                let range = body.clone().expect("only a GET can have a range");
                assert!(range.start < range.end && range.end <= len_bytes);
                assert_eq!(len.map(|len| len.0), Some(range.end - range.start));
                let described = response.headers().get(header::CONTENT_RANGE);
                let expected = format!("bytes {}-{}/{len_bytes}", range.start, range.end - 1);
                assert_eq!(
                    described.map(HeaderValue::as_bytes),
                    Some(expected.as_bytes())
                );
            }
            StatusCode::NOT_MODIFIED
            | StatusCode::PRECONDITION_FAILED
            | StatusCode::RANGE_NOT_SATISFIABLE => assert!(body.is_none()),
            status => panic!("{status}"),
        }
        assert!(parts.method != Method::HEAD || body.is_none());
    }
}

/// Checks that parsing a list incrementally gives the same entries as parsing it whole.
fn check_list(text: &[u8]) {
    let mut array = JsonArray::default();
    let mut found = Vec::new();
    let mut pieces = text.chunks(7);
    let taken = pieces.try_for_each(|piece| array.take(piece, &mut found));
    if let (Ok(()), Ok(whole)) = (
        taken.and_then(|()| array.end()),
        serde_json::from_slice::<Value>(text),
    ) {
        assert_eq!(Value::Array(found), whole);
    }
}
