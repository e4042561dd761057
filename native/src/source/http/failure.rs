//! Errors of failed requests, and whether the requests may be retried.

use std::io;
use std::time::SystemTime;

use ureq::Timeout;
use ureq::http::{StatusCode, header};

use super::answer::Answer;
use super::client::Client;
use super::reason;
use super::retry::{Failure, parse_retry_after};
use super::transport::Unanswered;
use crate::Error;
use crate::error::is_retryable_status;

impl Client {
    /// Returns the failure for a status that means the request was refused.
    pub(super) fn refused(&self, answer: &mut Answer) -> Failure {
        let hub = self.hub();
        let of_hub = hub.and_then(|hub| hub.advice(answer.status, &answer.headers));
        let reason = reason::of(answer);
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
        let retry_after = answer.headers.get(header::RETRY_AFTER);
        Failure::Passing {
            error,
            retry_after: retry_after
                .and_then(|value| parse_retry_after(value.to_str().ok()?, SystemTime::now())),
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
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        let detail = unanswered.describe();
        let Unanswered::Failed { error, .. } = unanswered else {
            return self.problem(detail).into();
        };
        match error {
            ureq::Error::Timeout(Timeout::Connect | Timeout::Resolve)
            | ureq::Error::HostNotFound
            | ureq::Error::ConnectionFailed => self.unless_never_answered(detail, &error),
            ureq::Error::Timeout(_) => self.stalled(),
            ureq::Error::Io(error) => match error.kind() {
                BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof => {
                    Failure::Passing {
                        error: self.unfinished(detail).caused_by(&error),
                        retry_after: None,
                        stale: self.options().transport.has_answered(),
                    }
                }
                _ => self.unless_never_answered(detail, &error),
            },
            ureq::Error::LargeResponseHeader(..) => {
                let detail = "the server's answer begins with more headers than are read";
                self.problem(detail).into()
            }
            ureq::Error::Protocol(error) => self
                .problem(format!("the answer is not valid HTTP: {error}"))
                .into(),
            error => self.problem(detail).caused_by(&error).into(),
        }
    }

    fn unless_never_answered(
        &self,
        detail: String,
        cause: &(dyn std::error::Error + 'static),
    ) -> Failure {
        let error = self.unfinished(detail).caused_by(cause);
        match self.has_answered() {
            true => Failure::passing(error),
            false => error.into(),
        }
    }

    /// Returns the failure for a body that cannot be read to its end.
    pub(super) fn broken(&self, error: &io::Error, got: u64, expected: Option<u64>) -> Failure {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
        match inner {
            Some(ureq::Error::Timeout(_)) => self.stalled(),
            Some(ureq::Error::Protocol(_)) => {
                let detail = format!("the body of the answer is not valid HTTP: {error}");
                self.problem(detail).into()
            }
            _ => {
                let cut = self.cut_error(got, expected, &format!(" ({error})"));
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
