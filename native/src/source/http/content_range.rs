//! The header `Content-Range` (RFC 9110, section 14.4).

use std::ops::Range;

/// The maximum position in a file. Larger integers cannot be represented exactly by
/// other readers, such as those in JavaScript.
const MAX_POSITION: u64 = (1 << 53) - 1;

/// The bytes that a response contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContentRange {
    /// The bytes in the body; `None` for a range that cannot be served (`bytes */9`).
    pub(super) sent: Option<Range<u64>>,
    /// Length of the whole file in bytes, if the server states it.
    pub(super) total: Option<u64>,
}

impl ContentRange {
    /// Parses the header. Returns `None` unless it contains exactly one byte range
    /// inside its file.
    pub(super) fn parse(header: &str) -> Option<Self> {
        let (unit, rest) = header.trim().split_once([' ', '\t'])?;
        let (range, total) = rest.trim().split_once('/')?;
        let total = match total {
            "*" => None,
            total => Some(number(total)?),
        };
        let sent = match range {
            "*" => None,
            range => {
                let (first, last) = range.split_once('-')?;
                Some(number(first)?..number(last)? + 1)
            }
        };
        let inside = sent
            .as_ref()
            .is_none_or(|sent| !sent.is_empty() && total.is_none_or(|total| sent.end <= total));
        (unit.eq_ignore_ascii_case("bytes") && inside).then_some(Self { sent, total })
    }
}

/// Parses a number that consists of digits only: `str::parse` also accepts a sign.
pub(super) fn number(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = digits.then(|| text.parse().ok())??;
    (number <= MAX_POSITION).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_with_or_without_a_total() {
        let parse = |header| ContentRange::parse(header).map(|range| (range.sent, range.total));
        assert_eq!(parse("bytes 0-99/1000"), Some((Some(0..100), Some(1000))));
        assert_eq!(parse(" Bytes  7-7/8 "), Some((Some(7..8), Some(8))));
        assert_eq!(parse("bytes 5-9/*"), Some((Some(5..10), None)));
        assert_eq!(parse("bytes */1000"), Some((None, Some(1000))));
    }

    #[test]
    fn anything_else_is_no_range() {
        for header in [
            "",
            "bytes",
            "items 0-9/10",
            "bytes 9-0/10",
            "bytes 0-10/10",
            "bytes -5-9/10",
            "bytes 0-+9/10",
            "bytes 0-9/-5",
            "bytes 0-9/",
            "bytes 0-9/18446744073709551615",
            "bytes 0-9/9000000000000000000",
            "bytes 0-99999999999999999999/*",
            "bytes 0-9/10, bytes 0-9/10",
        ] {
            assert_eq!(ContentRange::parse(header), None, "{header}");
        }
    }
}
