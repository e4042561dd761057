//! Checks the responses to range requests.

use std::ops::Range;

use ureq::http::header::RANGE;
use ureq::http::{HeaderName, HeaderValue};

use super::client::Client;
use super::content_range::ContentRange;
use crate::Error;

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
