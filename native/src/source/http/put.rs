//! Writes a file to a web server with one PUT request (RFC 9110, section 9.3.4).

use std::fs::File;
use std::io::{self, Read};

use ureq::SendBody;
use ureq::http::{HeaderValue, Method, Request, StatusCode, header};
use zstn_net::shown;
use zstn_net::target::Target;

use super::HttpOptions;
use super::answer::Answer;
use super::client::{Client, MAX_REDIRECTS};
use super::reason;
use super::retry::{Failure, Progress, retrying};
use super::secrets::Origin;
use crate::error::is_retryable_status;
use crate::source::file::read_at;
use crate::source::scheme::Scheme;
use crate::{Error, Location, Result};

/// The minimum length, in bytes, of a body that is sent only after the server has
/// agreed to receive it (`Expect: 100-continue`).
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
    let client = &Client::new(url, options)?;
    if !replace {
        retrying(options, |progress| ask(client, progress))?;
    }
    let mut upload = Upload {
        client,
        file,
        len_bytes,
        replace,
        sent,
        may_be_written: false,
    };
    retrying(options, |progress| upload.attempt(progress))
}

/// Checks that no file exists at an http(s) address.
///
/// # Errors
/// [`Error::Exists`] if a file exists; [`Error::Http`] for a server that cannot be
/// reached.
pub(crate) fn check_absent(url: &str, options: &HttpOptions) -> Result<()> {
    let client = &Client::new(url, options)?;
    retrying(options, |progress| ask(client, progress))
}

/// Checks whether the file exists. If the server does not answer this, it decides when
/// it receives the file: an address that is signed for writing may not allow reading.
fn ask(client: &Client, progress: &mut Progress<'_>) -> Result<(), Failure> {
    let mut answer = client.request(&Method::HEAD, &[], progress)?;
    match answer.status {
        status if status.is_success() => Err(Error::exists(Location::url(client.shown())).into()),
        status if is_retryable_status(status.as_u16()) => Err(client.refused(&mut answer)),
        _ => Ok(()),
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
    fn attempt(&mut self, progress: &mut Progress<'_>) -> Result<(), Failure> {
        let client = self.client;
        let mut target = client.target()?;
        let origin = Origin::of(&target.uri);
        for _ in 0..=MAX_REDIRECTS {
            let mut answer = self.send(&target, origin.as_ref(), progress)?;
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
                _ => return Err(self.refused(&mut answer)),
            }
        }
        let detail = format!("the server redirects more than {MAX_REDIRECTS} times");
        Err(client.problem(detail).into())
    }

    fn send(
        &mut self,
        target: &Target,
        origin: Option<&Origin>,
        progress: &mut Progress<'_>,
    ) -> Result<Answer, Failure> {
        progress.begin_request();
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
        if self.len_bytes >= MIN_EXPECTED_BYTES {
            request = request.header(header::EXPECT, "100-continue");
        }
        let turn = progress.turn();
        let mut body = Body {
            file: self.file,
            sent_bytes: 0,
            len_bytes: self.len_bytes,
            sent: self.sent,
            error: None,
            stopped: None,
            progress,
        };
        let sent = self
            .client
            .send(request, SendBody::from_reader(&mut body), origin, turn);
        if let Some(error) = body.stopped {
            return Err(error.into());
        }
        if let Some(error) = body.error {
            let url = self.client.shown();
            return Err(Error::io(format!("read the file for {url}"), error).into());
        }
        let was_sent = body.sent_bytes == self.len_bytes;
        let is_lost = match &sent {
            Ok(answer) => answer.status.is_server_error(),
            Err(_) => true,
        };
        self.may_be_written |= was_sent && is_lost;
        sent
    }

    /// Returns the error for an existing file.
    fn found(&self) -> Error {
        let lost = ": perhaps written by a request before, whose answer was lost; compare it";
        Error::Exists {
            location: Location::url(self.client.shown()),
            detail: String::from(if self.may_be_written { lost } else { "" }),
        }
    }

    fn refused(&self, answer: &mut Answer) -> Failure {
        let reason = reason::of(answer);
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

/// Reads the file for the request body, and counts the bytes as progress when they are
/// sent.
struct Body<'a, 'p> {
    file: &'a File,
    sent_bytes: u64,
    len_bytes: u64,
    sent: &'a dyn Fn(u64) -> Result<()>,
    error: Option<io::Error>,
    /// The error that `sent` returned.
    stopped: Option<Error>,
    progress: &'a mut Progress<'p>,
}

impl Read for Body<'_, '_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = self.len_bytes - self.sent_bytes;
        let most = out.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(0);
        }
        let read = match read_at(self.file, &mut out[..most], self.sent_bytes) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            read => read,
        };
        match read {
            Ok(len) => {
                self.sent_bytes += len as u64;
                self.progress.received(len, self.sent_bytes);
                if let Err(error) = (self.sent)(self.sent_bytes) {
                    self.stopped = Some(error);
                    return Err(io::ErrorKind::Other.into());
                }
                Ok(len)
            }
            Err(error) => {
                let kind = error.kind();
                self.error = Some(error);
                Err(kind.into())
            }
        }
    }
}
