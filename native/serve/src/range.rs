//! The byte range that a request selects (RFC 9110, section 14).

use std::ops::Range;

use axum::http::{HeaderMap, HeaderValue, header};

/// The part of a file to send.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Whole,
    None,
    Some(Range<u64>),
}

/// Returns the part of a file of `len` bytes that a request selects. A malformed header
/// is ignored. A request for several ranges is answered with the whole file, which the
/// RFC permits, unless only one of the ranges has bytes.
pub(super) fn wanted(headers: &HeaderMap, len: u64) -> Wanted {
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

/// Returns the ranges of a header. A range without bytes of the file is `None`.
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

/// Returns one range, or `Some(None)` if it has no bytes of the file.
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
