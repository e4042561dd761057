//! Writes a file to a web server with one PUT request (RFC 9110, section 9.3.4).

use std::fs::File;
use std::ops::Range;
use std::time::Duration;

use http::{HeaderValue, Method, Request, StatusCode, header};
use zstn_net::shown;
use zstn_net::target::Target;
use zstn_net::upload::upload;

use super::answer::Answer;
use super::client::{Client, MAX_REDIRECTS};
use super::failure::stated_reason;
use super::origin::Origin;
use super::retry::{Attempts, Failure, Turn};
use super::{HttpOptions, wait};
use crate::error::is_retryable_status;
use crate::source::file::read_exact_at;
use crate::source::scheme::Scheme;
use crate::{Error, Location, Result};

/// The minimum length, in bytes, of a body that the server has a moment to refuse before
/// it is sent (`Expect: 100-continue`).
const MIN_EXPECTED_BYTES: u64 = 1 << 20;

/// Writes the first `len_bytes` bytes of `file` to the http(s) address `url` with a PUT
/// request. The headers that `options` has for the origin of `url` are sent with it.
///
/// If `replace` is false, an existing file is kept: the existence of the file is
/// checked first, and `If-None-Match: *` makes the server refuse to replace a file that
/// has appeared since. A server that ignores this condition replaces such a file.
///
/// A request that fails for a reason that may be temporary is retried like a read. The
/// body is never sent to another origin, whatever the server redirects to.
///
/// # Errors
/// [`Error::Exists`] for an existing file, which an attempt whose response was lost may
/// have written; [`Error::Http`] for any status except 200, 201 and 204, and for a
/// server that cannot be reached; [`Error::Io`] if `file` cannot be read or is shorter;
/// [`Error::Usage`] for an address that is not http(s).
pub fn put(
    url: &str,
    file: &File,
    len_bytes: u64,
    options: &HttpOptions,
    replace: bool,
) -> Result<()> {
    put_watched(url, file, len_bytes, options, replace, &|_| Ok(()))
}

/// Writes a file like [`put`]. `sent` is called with the number of bytes that the
/// current attempt has sent, including those that it sends next. If `sent` returns an
/// error, the request ends before the server receives these bytes, and the error is
/// returned.
pub fn put_watched(
    url: &str,
    file: &File,
    len_bytes: u64,
    options: &HttpOptions,
    replace: bool,
    sent: &dyn Fn(u64) -> Result<()>,
) -> Result<()> {
    if Scheme::of(url)? != Scheme::Http {
        return Err(Error::Usage(format!(
            "{} cannot be written to: that takes an http(s) address",
            shown::address(url)
        )));
    }
    let client = Client::new(url, options)?;
    wait(async {
        if !replace {
            ask(&client).await?;
        }
        let mut upload = Upload {
            client: &client,
            file,
            len_bytes,
            replace,
            sent,
            may_be_written: false,
        };
        let mut attempts = Attempts::begin(options);
        loop {
            match upload.attempt(&mut attempts).await {
                Ok(()) => return Ok(()),
                Err(failure) => attempts.retry(failure).await?,
            }
        }
    })
}

/// Checks that no file exists at an http(s) address.
///
/// # Errors
/// [`Error::Exists`] if a file exists; [`Error::Http`] for a server that cannot be
/// reached.
pub fn check_absent(url: &str, options: &HttpOptions) -> Result<()> {
    let client = Client::new(url, options)?;
    wait(ask(&client))
}

/// Checks whether the file exists. A server that does not answer this can still refuse
/// the file when it receives it: an address that is signed for writing may not allow
/// reading.
async fn ask(client: &Client) -> Result<()> {
    let mut attempts = Attempts::begin(client.options());
    loop {
        let failure = match client.request(&Method::HEAD, &[], &mut attempts).await {
            Ok(answer) if answer.status.is_success() => {
                return Err(Error::exists(Location::url(client.shown())));
            }
            Ok(mut answer) if is_retryable_status(answer.status.as_u16()) => {
                client.refused(&mut answer).await
            }
            Ok(_) => return Ok(()),
            Err(failure) => failure,
        };
        attempts.retry(failure).await?;
    }
}

struct Upload<'a> {
    client: &'a Client,
    file: &'a File,
    len_bytes: u64,
    replace: bool,
    /// Called with the number of bytes that the current attempt has sent.
    sent: &'a dyn Fn(u64) -> Result<()>,
    /// True once all bytes were sent in a request whose response was lost.
    may_be_written: bool,
}

impl Upload<'_> {
    /// Sends one request and follows its redirects.
    async fn attempt(&mut self, attempts: &mut Attempts<'_>) -> Result<(), Failure> {
        let client = self.client;
        let mut target = client.target()?;
        let origin = Origin::of(&target.uri);
        for _ in 0..=MAX_REDIRECTS {
            let mut answer = self.send(&target, origin.as_ref(), attempts).await?;
            match answer.status {
                StatusCode::OK | StatusCode::CREATED | StatusCode::NO_CONTENT => return Ok(()),
                StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => {
                    target = redirected(client, &target, &answer)?;
                    let to = Origin::of(&target.uri);
                    if to != origin {
                        let advice = format!(
                            " and wants the file at another server, {}, to which it is not sent; \
                             give the address there if that is meant",
                            to.map_or_else(String::new, |origin| origin.to_string())
                        );
                        return Err(client.status_problem(answer.status, &advice).into());
                    }
                }
                status if status.is_redirection() => {
                    let advice =
                        ", a redirect that takes no file along; give the address at its end";
                    return Err(client.status_problem(status, advice).into());
                }
                StatusCode::PRECONDITION_FAILED if !self.replace => {
                    return Err(self.found().into());
                }
                _ => return Err(self.refused(&mut answer).await),
            }
        }
        let detail = format!("the server redirects more than {MAX_REDIRECTS} times");
        Err(client.problem(detail).into())
    }

    async fn send(
        &mut self,
        target: &Target,
        origin: Option<&Origin>,
        attempts: &mut Attempts<'_>,
    ) -> Result<Answer, Failure> {
        attempts.begin_request();
        let mut request = Request::builder()
            .method(Method::PUT)
            .uri(&target.uri)
            .header(header::CONTENT_LENGTH, HeaderValue::from(self.len_bytes));
        let secrets = &self.client.options().secrets;
        if !secrets.has(self.client.url(), &header::CONTENT_TYPE) {
            request = request.header(header::CONTENT_TYPE, "application/octet-stream");
        }
        if !self.replace {
            request = request.header(header::IF_NONE_MATCH, "*");
        }
        let may_be_refused = self.len_bytes >= MIN_EXPECTED_BYTES;
        if may_be_refused {
            request = request.header(header::EXPECT, "100-continue");
        }
        let turn = attempts.turn();
        // The time limit applies to each piece of the body, not to the whole body.
        let whole = Turn {
            patience: Duration::MAX,
            ..turn
        };
        let mut sent_bytes = 0;
        let sent = upload(
            self.len_bytes,
            may_be_refused,
            turn.patience,
            |body| self.client.send(request, body, origin, whole),
            |range| {
                sent_bytes = range.end;
                Ok(self.read(range, attempts)?)
            },
        );
        let sent = sent.await.transpose();
        let sent = sent.unwrap_or_else(|| Err(self.client.stalled()));
        let is_lost = match &sent {
            Ok(answer) => answer.status.is_server_error(),
            Err(_) => true,
        };
        self.may_be_written |= sent_bytes == self.len_bytes && is_lost;
        sent
    }

    /// Reads a range of the file, and counts its bytes as progress.
    fn read(&self, range: Range<u64>, attempts: &mut Attempts<'_>) -> Result<Vec<u8>> {
        let mut bytes = zstn_core::bytes::buffer(range.end - range.start)?;
        let name = format!("the file for {}", self.client.shown());
        read_exact_at(self.file, &name, 0, range.start, &mut bytes)?;
        attempts.received(bytes.len(), range.end);
        (self.sent)(range.end)?;
        Ok(bytes)
    }

    /// Returns the error for an existing file.
    fn found(&self) -> Error {
        let lost = ": perhaps written by a request before, whose answer was lost; compare it";
        Error::Exists {
            location: Location::url(self.client.shown()),
            detail: String::from(if self.may_be_written { lost } else { "" }),
        }
    }

    async fn refused(&self, answer: &mut Answer) -> Failure {
        let reason = stated_reason(answer).await;
        let advice = match answer.status.as_u16() {
            401 | 403 => "; writing there needs a login, or more permissions",
            404 | 405 | 501 => "; it takes no files at this address",
            409 => "; the folder may be missing, or another client is writing the same file",
            413 => "; the file is too large for it",
            429 => "; too many requests, try again later",
            507 => "; it has no space left",
            500..=599 => "; the server has a problem, try again later",
            _ => "",
        };
        self.client
            .refused_with(answer, &format!("{reason}{advice}"))
    }
}

fn redirected(client: &Client, from: &Target, answer: &Answer) -> Result<Target, Error> {
    let location = answer.headers.get(header::LOCATION).ok_or_else(|| {
        client.status_problem(answer.status, " without saying where the file goes")
    })?;
    client.redirected(from, location)
}
