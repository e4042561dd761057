//! Errors of failed requests: their messages, and whether another attempt may succeed.

use http::{StatusCode, header};
use tokio::time::timeout;
use zstn_net::client::{Cause, Unanswered, is_invalid_body, reason};
use zstn_net::retry::requested_wait;
use zstn_net::shown;

use super::answer::{Answer, Framing};
use super::client::Client;
use super::retry::Failure;
use crate::Error;
use crate::error::is_retryable_status;

/// The maximum length of a body that is searched for a reason, in bytes.
const MAX_BODY_BYTES: usize = 16 << 10;
/// The maximum length of a displayed reason, in characters.
const MAX_CHARACTERS: usize = 300;

impl Client {
    /// Returns the failure for a status that means the request was refused.
    pub(super) async fn refused(&self, answer: &mut Answer) -> Failure {
        let hub = self.hub();
        let of_hub = hub.and_then(|hub| hub.advice(answer.status, &answer.headers));
        let reason = stated_reason(answer).await;
        let lower = reason.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        let advice = match answer.status.as_u16() {
            400..=403 if has(&["expired", "specified time frame"]) => {
                "; the address was valid for a time only, get a new one"
            }
            403 if has(&["too skewed", "timetooskewed"]) => {
                "; the clock of this machine differs from that of the server, set it"
            }
            403 | 409 if has(&["invalidobjectstate", "archived"]) => {
                "; the object is archived, restore it first"
            }
            401 | 403 => "; the file may need a login",
            404 | 410 => "; there is no such file, check the address",
            429 => "; too many requests, try again later",
            500..=599 => "; the server has a problem, try again later",
            _ => "",
        };
        let advice = of_hub.unwrap_or_else(|| format!("{reason}{advice}"));
        self.refused_with(answer, &advice)
    }

    /// Returns the failure for a refused request with this advice for the user.
    pub(super) fn refused_with(&self, answer: &Answer, advice: &str) -> Failure {
        let error = self.status_problem(answer.status, advice);
        if !is_retryable_status(answer.status.as_u16()) {
            return error.into();
        }
        Failure::Passing {
            error,
            retry_after: requested_wait(&answer.headers),
            stale: false,
        }
    }

    pub(super) fn problem(&self, detail: impl Into<String>) -> Error {
        Error::http(self.shown(), detail, None)
    }

    /// Returns the error for a request without a complete response.
    fn unfinished(&self, detail: impl Into<String>) -> Error {
        Error::unanswered(self.shown(), detail)
    }

    pub(super) fn status_problem(&self, status: StatusCode, advice: &str) -> Error {
        let detail = format!("the server answered {status}{advice}");
        Error::http(self.shown(), detail, Some(status.as_u16()))
    }

    pub(super) fn changed(&self, detail: impl Into<String>) -> Error {
        Error::Changed {
            name: self.shown().into(),
            detail: detail.into(),
        }
    }

    /// Returns the failure for a server that has stopped sending.
    pub(super) fn stalled(&self) -> Failure {
        let seconds = self.options().idle_timeout.as_secs_f32();
        Failure::passing(self.unfinished(format!(
            "next to nothing came from the server for {seconds} s; try again later"
        )))
    }

    /// Returns the failure for a request without a response.
    pub(super) fn unanswered(&self, unanswered: Unanswered) -> Failure {
        let Unanswered {
            cause,
            detail,
            source,
        } = unanswered;
        match cause {
            Cause::Silent => self.stalled(),
            Cause::Unreachable => {
                let error = self.unfinished(detail).with_source(source);
                match self.has_answered() {
                    true => Failure::passing(error),
                    false => error.into(),
                }
            }
            Cause::Broken => Failure::Passing {
                error: self.unfinished(detail).with_source(source),
                retry_after: None,
                stale: self.options().connections.has_answered(),
            },
            _ => self.problem(detail).with_source(source).into(),
        }
    }

    /// Returns the failure for a body that cannot be read to its end.
    pub(super) fn broken(
        &self,
        error: &reqwest::Error,
        got: u64,
        expected: Option<u64>,
    ) -> Failure {
        let why = reason(error);
        match is_invalid_body(error) {
            true => self
                .problem(format!("the body of the answer is not valid HTTP: {why}"))
                .into(),
            false => {
                let cut = self.cut_error(got, expected, &format!(" ({why})"));
                Failure::passing(cut.caused_by(error))
            }
        }
    }

    /// Returns the failure for a body that ends early.
    pub(super) fn cut(&self, got: u64, expected: Option<u64>) -> Failure {
        Failure::passing(self.cut_error(got, expected, ""))
    }

    fn cut_error(&self, got: u64, expected: Option<u64>, why: &str) -> Error {
        let of = expected.map_or(String::new(), |expected| format!(" of {expected}"));
        self.unfinished(format!(
            "the connection ended after {got}{of} bytes{why}; try again, and if it happens again, \
             the server is at fault"
        ))
    }
}

/// Returns the reason that an object store states for a refusal, formatted as
/// ` (REASON; CODE)`, or nothing. It consists of the XML elements `Message` and `Code`,
/// without the secrets of the requested address.
pub(super) async fn stated_reason(answer: &mut Answer) -> String {
    let is_xml = answer
        .headers
        .get(header::CONTENT_TYPE)
        .is_none_or(|kind| kind.as_bytes().windows(3).any(|part| part == b"xml"));
    let is_short = match answer.framing {
        Framing::Length(len) => (1..=MAX_BODY_BYTES as u64).contains(&len),
        Framing::Chunked => is_xml,
        Framing::Close => false,
    };
    if !is_xml || !is_short {
        return String::new();
    }
    let mut body = Vec::new();
    // The bytes before a broken connection may contain the reason.
    while body.len() < MAX_BODY_BYTES
        && let Ok(Ok(Some(piece))) = timeout(answer.silence, answer.body.chunk()).await
    {
        body.extend_from_slice(&piece);
    }
    body.truncate(MAX_BODY_BYTES);
    let body = String::from_utf8_lossy(&body);
    let reason = match (element(&body, "Message"), element(&body, "Code")) {
        (Some(message), Some(code)) => format!("{message}; {code}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => return String::new(),
    };
    let reason = shown::answer(&reason, &answer.asked);
    let end = reason.char_indices().nth(MAX_CHARACTERS);
    let end = end.map_or(reason.len(), |(end, _)| end);
    format!(" ({})", &reason[..end])
}

/// Returns the text of the first XML element with this name, on one line.
fn element(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (value, _) = rest.split_once("</")?;
    let words: Vec<&str> = value.split_whitespace().collect();
    let plain = words.join(" ");
    let mut plain = plain.trim_end_matches('.').to_owned();
    for (escape, character) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&amp;", "&"),
    ] {
        plain = plain.replace(escape, character);
    }
    (!plain.is_empty()).then_some(plain)
}
