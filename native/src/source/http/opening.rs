//! Determines the length and the version of a file from the first response.

use ureq::http::{Method, StatusCode};

use super::answer::{Answer, Framing};
use super::body::{Expected, receive};
use super::client::Client;
use super::content_range::ContentRange;
use super::ranges;
use super::retry::{Failure, Progress};
use super::validator::Validators;
use crate::error::is_retryable_status;

/// The contents of the first response.
pub(super) struct Opened {
    /// The length of the file; `None` if the server does not state it.
    pub(super) len_bytes: Option<u64>,
    pub(super) version: Validators,
    pub(super) head: Vec<u8>,
}

/// Makes one attempt to read the first `most` bytes. Returns `None` if the server
/// ignores ranges.
pub(super) fn first(
    client: &Client,
    most: u64,
    progress: &mut Progress<'_>,
) -> Result<Option<Opened>, Failure> {
    let mut answer = client.request(&Method::GET, &[ranges::header(&(0..most))], progress)?;
    let version = Validators::of(&answer.headers);
    let mut head = Vec::new();
    let empty = Some(Opened {
        len_bytes: Some(0),
        version: version.clone(),
        head: Vec::new(),
    });
    match answer.status {
        StatusCode::PARTIAL_CONTENT => {}
        StatusCode::OK if answer.framing == Framing::Length(0) => return Ok(empty),
        StatusCode::OK => return Ok(None),
        StatusCode::RANGE_NOT_SATISFIABLE if says_empty(client, &answer) => return Ok(empty),
        StatusCode::RANGE_NOT_SATISFIABLE => {
            let advice = " to a range from the first byte on, which only an empty file lacks, and \
                          does not say that it is empty";
            return Err(client.status_problem(answer.status, advice).into());
        }
        _ => return Err(client.refused(&mut answer)),
    }
    client.refuse_encoded(&answer)?;
    let range = client.content_range(&answer)?;
    let sent = ranges::sent_from(client, &range, 0)?;
    if sent.end > most {
        return Err(ranges::beyond(client, &sent, &(0..most)).into());
    }
    let is_short = sent.end < most.min(range.total.unwrap_or(sent.end));
    if is_short && !version.exist() {
        return Err(ranges::not_joinable(client).into());
    }
    receive(
        client,
        answer,
        Expected::Exactly(sent.end),
        &mut head,
        progress,
    )?;
    Ok(Some(Opened {
        len_bytes: range.total,
        version,
        head,
    }))
}

/// Requests the length of the file separately.
pub(super) fn ask_len(
    client: &Client,
    version: &Validators,
    progress: &mut Progress<'_>,
) -> Result<u64, Failure> {
    let mut answer = client.request(&Method::HEAD, &[], progress)?;
    if is_retryable_status(answer.status.as_u16()) {
        return Err(client.refused(&mut answer));
    }
    // With other statuses the length stays unknown: signed addresses are often valid
    // for GET only.
    client.refuse_encoded(&answer)?;
    match answer.framing {
        Framing::Length(len) if answer.status == StatusCode::OK => {
            let answered = Validators::of(&answer.headers);
            if !version.match_those_of(&answered, true) {
                let difference = version.difference(&answered);
                return Err(ranges::other_version(client, &difference).into());
            }
            Ok(len)
        }
        _ => Err(ranges::unknown_length(client).into()),
    }
}

/// Returns whether a response with status 416 states that the file is empty. An empty
/// file has no ranges.
fn says_empty(client: &Client, answer: &Answer) -> bool {
    client
        .content_range(answer)
        .is_ok_and(|ContentRange { total, .. }| total == Some(0))
}
