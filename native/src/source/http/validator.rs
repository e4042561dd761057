//! Validators, which distinguish the versions of a file (RFC 9110, section
//! 8.8).

use std::time::Duration;

use http::{HeaderMap, HeaderValue, header};
use httpdate::parse_http_date;

/// The validators of one response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Validators {
    etag: Option<HeaderValue>,
    last_modified: Option<HeaderValue>,
    /// True if `last_modified` is a moment that had passed when the server responded,
    /// so that no later version can have the same one.
    date_is_strong: bool,
}

impl Validators {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let date = |name| parse_http_date(headers.get(name)?.to_str().ok()?).ok();
        let modified = date(header::LAST_MODIFIED);
        let answered = date(header::DATE);
        Self {
            etag: headers.get(header::ETAG).cloned(),
            last_modified: headers.get(header::LAST_MODIFIED).cloned(),
            date_is_strong: modified
                .zip(answered)
                .and_then(|(modified, answered)| answered.duration_since(modified).ok())
                .is_some_and(|age| age >= Duration::from_secs(1)),
        }
    }

    /// Returns whether a change of the file would be noticed. Only then may the bytes
    /// of two responses be joined in one read.
    pub(super) fn exist(&self) -> bool {
        self.etag.is_some() || self.last_modified.is_some()
    }

    /// Returns the value for `If-Range`: a strong ETag, or a date that is equally
    /// reliable.
    pub(super) fn if_range(&self) -> Option<&HeaderValue> {
        match &self.etag {
            Some(etag) => is_strong(etag).then_some(etag),
            None => self.last_modified.as_ref().filter(|_| self.date_is_strong),
        }
    }

    /// Returns whether the response with the validators `answered` belongs to the same
    /// version. If no validators can be compared, it belongs to the same version only
    /// if `self` has no validators, or if the server compared them itself: the request
    /// had an `If-Range` header, and the status implies that they match.
    pub(super) fn match_those_of(&self, answered: &Self, compared_by_server: bool) -> bool {
        // A strong ETag that has become weak is a different ETag: an intermediary may
        // have changed the bytes.
        if let (Some(ours), Some(theirs)) = (&self.etag, &answered.etag) {
            return without_coding(ours) == without_coding(theirs);
        }
        if let (Some(ours), Some(theirs)) = (&self.last_modified, &answered.last_modified) {
            return ours == theirs;
        }
        compared_by_server || !self.exist()
    }

    /// Describes how the validators of a response differ, as part of a sentence.
    pub(super) fn difference(&self, answered: &Self) -> String {
        let text = |value: &Option<HeaderValue>| match value {
            Some(value) => String::from_utf8_lossy(value.as_bytes()).into_owned(),
            None => "none".into(),
        };
        let has_dates = self.last_modified.is_some() && answered.last_modified.is_some();
        let by_date = self.etag.is_none() || answered.etag.is_none() && has_dates;
        let (name, validator): (_, fn(&Self) -> &Option<HeaderValue>) = match by_date {
            true => ("Last-Modified", |of| &of.last_modified),
            false => ("ETag", |of| &of.etag),
        };
        let (theirs, ours) = (text(validator(answered)), text(validator(self)));
        format!("{name} {theirs} instead of {ours}")
    }
}

/// Returns an ETag without the suffix that some servers append when they might compress
/// the file. Compressed files are refused in any case.
fn without_coding(etag: &HeaderValue) -> &[u8] {
    let bytes = etag.as_bytes();
    let Some(inner) = bytes.strip_suffix(b"\"") else {
        return bytes;
    };
    let ends: [&[u8]; 5] = [b"--gzip", b"-gzip", b";gzip", b"-br", b"-zstd"];
    let found = ends.iter().find_map(|end| inner.strip_suffix(*end));
    found.unwrap_or(inner)
}

fn is_strong(etag: &HeaderValue) -> bool {
    let bytes = etag.as_bytes();
    bytes.len() >= 2
        && bytes[0] == b'"'
        && bytes.iter().position(|&byte| byte == b'"') == Some(0)
        && bytes[1..].iter().position(|&byte| byte == b'"') == Some(bytes.len() - 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn validators(headers: &[(header::HeaderName, &str)]) -> Validators {
        let headers = headers.iter();
        Validators::of(
            &headers
                .map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap()))
                .collect(),
        )
    }

    #[test]
    fn if_range_is_strong_or_absent() {
        use header::{DATE, ETAG, LAST_MODIFIED};
        let early = "Mon, 01 Jan 2024 00:00:00 GMT";
        let late = "Mon, 01 Jan 2024 00:00:01 GMT";
        for (headers, expected) in [
            (&[(ETAG, "\"1\"")][..], Some("\"1\"")),
            (&[(ETAG, "W/\"1\"")], None),
            (&[(ETAG, "1")], None),
            (&[(ETAG, "\"")], None),
            (&[(ETAG, "\"1\"2\"")], None),
            (&[(LAST_MODIFIED, early)], None),
            (&[(LAST_MODIFIED, early), (DATE, early)], None),
            (&[(LAST_MODIFIED, early), (DATE, late)], Some(early)),
            (&[(LAST_MODIFIED, late), (DATE, early)], None),
            (
                &[(ETAG, "W/\"1\""), (LAST_MODIFIED, early), (DATE, late)],
                None,
            ),
            (&[], None),
        ] {
            let found = validators(headers);
            let value = found.if_range().map(|value| value.to_str().unwrap());
            assert_eq!(value, expected, "{headers:?}");
        }
    }

    #[test]
    fn the_validators_that_differ_are_named() {
        use header::{ETAG, LAST_MODIFIED};
        let (monday, tuesday) = ("Mon, 01 Jan 2024", "Tue, 02 Jan 2024");
        for (first, later, expected) in [
            (
                &[(ETAG, "\"1\""), (LAST_MODIFIED, monday)][..],
                &[(ETAG, "W/\"1\""), (LAST_MODIFIED, tuesday)][..],
                "ETag W/\"1\" instead of \"1\"",
            ),
            (&[(ETAG, "\"1\"")], &[], "ETag none instead of \"1\""),
            (
                &[(ETAG, "\"1\""), (LAST_MODIFIED, monday)],
                &[(LAST_MODIFIED, tuesday)],
                "Last-Modified Tue, 02 Jan 2024 instead of Mon, 01 Jan 2024",
            ),
            (
                &[(LAST_MODIFIED, monday)],
                &[(ETAG, "\"1\"")],
                "Last-Modified none instead of Mon, 01 Jan 2024",
            ),
        ] {
            assert_eq!(validators(first).difference(&validators(later)), expected);
        }
    }

    #[test]
    fn the_etag_decides_before_the_date() {
        use header::{ETAG, LAST_MODIFIED};
        let (monday, tuesday) = (
            "Mon, 01 Jan 2024 00:00:00 GMT",
            "Tue, 02 Jan 2024 00:00:00 GMT",
        );
        for (first, later, by_server, same) in [
            (&[(ETAG, "\"1\"")][..], &[(ETAG, "\"1\"")][..], false, true),
            (&[(ETAG, "\"1\"")], &[(ETAG, "\"2\"")], true, false),
            (&[(ETAG, "\"1\"")], &[(ETAG, "W/\"1\"")], true, false),
            (&[(ETAG, "\"1\"")], &[(ETAG, "\"1-gzip\"")], false, true),
            (&[(ETAG, "\"1-gzip\"")], &[(ETAG, "\"1\"")], false, true),
            (&[(ETAG, "\"1\"")], &[(ETAG, "\"2-gzip\"")], true, false),
            (&[(ETAG, "W/\"1\"")], &[(ETAG, "W/\"1\"")], false, true),
            (
                &[(ETAG, "\"1\""), (LAST_MODIFIED, monday)],
                &[(ETAG, "\"1\""), (LAST_MODIFIED, tuesday)],
                false,
                true,
            ),
            (
                &[(LAST_MODIFIED, monday)],
                &[(LAST_MODIFIED, tuesday)],
                false,
                false,
            ),
            (&[(LAST_MODIFIED, monday)], &[], false, false),
            (&[(ETAG, "\"1\"")], &[], false, false),
            (&[(ETAG, "\"1\"")], &[], true, true),
            (&[], &[(ETAG, "\"1\"")], false, true),
        ] {
            let found = validators(first).match_those_of(&validators(later), by_server);
            assert_eq!(found, same, "{first:?} {later:?} {by_server}");
        }
    }
}
