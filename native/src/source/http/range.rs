//! Parses and checks `Content-Range`, the header that states which bytes a response
//! contains (RFC 9110, section 14.4).

use std::ops::Range;

use http::header::RANGE;
use http::{HeaderName, HeaderValue};

use super::client::Client;
use crate::Error;

/// The maximum position in a file. Larger integers cannot be represented exactly by
/// other readers, such as readers in JavaScript.
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

/// The maximum number of consecutive responses that are shorter than requested. A range
/// whose rest halves with every response is completed within this number; one that
/// arrives in single bytes is not.
const MAX_SHORT_ANSWERS: u32 = 64;

/// Returns the range of bytes that a response contains, which must begin at `start`.
pub(super) fn sent_from(
    client: &Client,
    range: &ContentRange,
    start: u64,
) -> Result<Range<u64>, Error> {
    match &range.sent {
        Some(sent) if sent.start == start => Ok(sent.clone()),
        Some(sent) => Err(client.problem(format!(
            "the server answered with other bytes than were requested: from {} on instead of from \
             {start} on",
            sent.start
        ))),
        None => {
            Err(client
                .problem("the server sends part of the file, but states that it sends no part"))
        }
    }
}

/// Counts a response with fewer bytes than requested.
pub(super) fn count_short(client: &Client, short_answers: &mut u32) -> Result<(), Error> {
    *short_answers += 1;
    if *short_answers <= MAX_SHORT_ANSWERS {
        return Ok(());
    }
    Err(client.problem(format!(
        "the server sent less than was requested {MAX_SHORT_ANSWERS} times in a row"
    )))
}

pub(super) fn other_length(client: &Client, was: u64, is: u64) -> Error {
    client.changed(format!(", from {was} to {is} bytes"))
}

/// Returns the error for bytes of another version that are not compared with checksums.
/// `difference` is the result of
/// [`Validators::difference`](super::validator::Validators::difference).
pub(super) fn other_version(client: &Client, difference: &str) -> Error {
    client.changed(format!(
        " ({difference}, and these bytes are not compared with checksums; if several servers \
         answer for this address, download the file first)"
    ))
}

/// Returns the error for bytes of another version that do not match the checksums in
/// the file.
pub(super) fn not_its_checksums(client: &Client, difference: &str) -> Error {
    client.changed(format!(
        " ({difference}, and the bytes do not have the checksums in the file)"
    ))
}

pub(super) fn unknown_length(client: &Client) -> Error {
    client.problem("the server does not state the length of the file")
}

pub(super) fn not_joinable(client: &Client) -> Error {
    client.problem(
        "the server sent less than was requested, and nothing (ETag, Last-Modified) by which two \
         parts could be known to be of the same file",
    )
}

pub(super) fn ignored(client: &Client) -> Error {
    client.problem(
        "the server ignores range requests, so single tensors cannot be read from it; download \
         the file or use another server",
    )
}

/// Returns the error for a file of more than `most_bytes`, which is not read as a
/// whole.
pub(super) fn ignored_beyond(client: &Client, most_bytes: u64) -> Error {
    client.problem(format!(
        "the server ignores range requests, and files of more than {most_bytes} bytes are not \
         read whole for single tensors; download the file or use another server"
    ))
}

pub(super) fn beyond(client: &Client, sent: &Range<u64>, asked: &Range<u64>) -> Error {
    client.problem(format!(
        "the server answered with other bytes than were requested: up to {} instead of up to {}",
        sent.end, asked.end
    ))
}

/// Returns the header that requests `range`.
pub(super) fn header(range: &Range<u64>) -> (HeaderName, HeaderValue) {
    let text = format!("bytes={}-{}", range.start, range.end.max(1) - 1);
    let value = HeaderValue::try_from(text);
    (
        RANGE,
        value.unwrap_or(HeaderValue::from_static("bytes=0-0")),
    )
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
