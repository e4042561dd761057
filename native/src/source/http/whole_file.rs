//! Downloads whole files, in one response unless a connection breaks.

use std::fs::File;
use std::io::{Seek, Write};

use http::{HeaderValue, Method, StatusCode, header};

use super::answer::{Answer, Expected, Framing, Sink, receive};
use super::client::Client;
use super::retry::{Attempts, Failure};
use super::validator::Validators;
use super::{HttpOptions, range};
use crate::output::temporary;
use crate::source::Local;
use crate::{Error, Result};

/// Downloads the file at `url` into a temporary file, which is removed when the result
/// is dropped. `progress` is called with the number of bytes fetched and the length, if
/// it is known.
///
/// # Errors
/// Network errors; a server that neither announces the length of the file nor supports
/// ranges, and ends its response by closing the connection. A truncated download would
/// look complete in this case.
pub async fn download(
    url: &str,
    options: &HttpOptions,
    progress: &dyn Fn(u64, Option<u64>),
) -> Result<Local> {
    let client = Client::new(url, options)?;
    let file = temporary::create()?;
    let mut spooled = Spooled {
        file,
        len_bytes: 0,
        total: None,
        progress,
    };
    match Whole::new(&client, options.max_unsized_bytes)
        .fetch(&mut spooled)
        .await?
    {
        Fetched::All => Local::of_file(client.shown().into(), &spooled.file),
        Fetched::Absent(mut answer) => Err(absent(&client, &mut answer).await),
        Fetched::TooLong => Err(client.problem(format!(
            "the server sent more than {} bytes without announcing how many; an answer without \
             an end would fill the disk",
            options.max_unsized_bytes
        ))),
    }
}

/// The bytes of a small file.
pub struct SmallFile {
    pub bytes: Vec<u8>,
    /// The address of this version of the file, if it differs from the requested
    /// address.
    pub pinned: Option<String>,
}

/// Reads a whole small file. A file of more than `most_bytes` is refused with the error
/// `too_long`.
pub async fn small(
    url: &str,
    options: &HttpOptions,
    most_bytes: u64,
    too_long: impl FnOnce() -> Error,
) -> Result<SmallFile> {
    let client = Client::new(url, options)?;
    Ok(SmallFile {
        bytes: capped(&client, most_bytes, too_long).await?,
        pinned: client.pinned(),
    })
}

/// Reads a whole file of at most `most_bytes`. A longer file is refused with the error
/// `too_long`.
async fn capped(
    client: &Client,
    most_bytes: u64,
    too_long: impl FnOnce() -> Error,
) -> Result<Vec<u8>> {
    let mut whole = Whole::new(client, most_bytes);
    whole.is_capped = true;
    let mut bytes = Vec::new();
    match whole.fetch(&mut bytes).await? {
        Fetched::All => Ok(bytes),
        Fetched::Absent(mut answer) => Err(absent(client, &mut answer).await),
        Fetched::TooLong => Err(too_long()),
    }
}

/// Reads a whole file, whose server ignores ranges, into memory. The file must not be
/// longer than [`HttpOptions::max_full_download_bytes`].
pub async fn without_ranges(url: &str, options: &HttpOptions) -> Result<Local> {
    let client = Client::new(url, options)?;
    let most_bytes = options.max_full_download_bytes;
    if most_bytes == 0 {
        return Err(range::ignored(&client));
    }
    let too_long = || range::ignored_beyond(&client, most_bytes);
    let bytes = capped(&client, most_bytes, too_long).await?;
    if let Some(observer) = &options.observer {
        observer.read_whole(url, bytes.len() as u64);
    }
    Ok(Local::of_bytes(client.shown().into(), bytes))
}

/// Returns the error for a file that does not exist or requires a login.
async fn absent(client: &Client, answer: &mut Answer) -> Error {
    match client.refused(answer).await {
        Failure::Final(error) | Failure::Passing { error, .. } => error,
    }
}

struct Spooled<'a> {
    file: File,
    len_bytes: u64,
    total: Option<u64>,
    progress: &'a dyn Fn(u64, Option<u64>),
}

impl Sink for Spooled<'_> {
    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn restart(&mut self) -> Result<()> {
        self.len_bytes = 0;
        self.total = None;
        let cleared = self.file.set_len(0).and_then(|()| self.file.rewind());
        cleared.map_err(|error| temporary::failed("clear")(error))
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file
            .write_all(bytes)
            .map_err(|error| temporary::failed("write")(error))?;
        self.len_bytes += bytes.len() as u64;
        (self.progress)(self.len_bytes, self.total);
        Ok(())
    }

    fn expect(&mut self, total_bytes: u64) {
        self.total = Some(total_bytes);
    }
}

enum Fetched {
    All,
    /// The file does not exist, or requires a login.
    Absent(Box<Answer>),
    TooLong,
}

struct Whole<'a> {
    client: &'a Client,
    /// The length limit: for every file if `is_capped`, otherwise for files without an
    /// announced length.
    most_bytes: u64,
    is_capped: bool,
    /// The validators of the response whose bytes have been received.
    version: Validators,
    total: Option<u64>,
    /// True if the file is requested as a range from the first byte, because a server
    /// that does not announce its length may state it in the response to a range.
    by_range: bool,
    /// True once the rest of the file came from another version and the file was
    /// fetched again from its start. This is done only once: a file that keeps changing
    /// is an error.
    has_begun_again: bool,
}

impl<'a> Whole<'a> {
    fn new(client: &'a Client, most_bytes: u64) -> Self {
        Self {
            client,
            most_bytes,
            is_capped: false,
            version: Validators::default(),
            total: None,
            by_range: false,
            has_begun_again: false,
        }
    }

    async fn fetch(&mut self, sink: &mut impl Sink) -> Result<Fetched> {
        let mut attempts = Attempts::begin(self.client.options());
        let mut short_answers = 0;
        loop {
            match self.attempt(sink, &mut attempts).await {
                Ok(Some(fetched)) => return Ok(fetched),
                Ok(None) => range::count_short(self.client, &mut short_answers)?,
                Err(failure) => {
                    attempts.retry(failure).await?;
                    short_answers = 0;
                }
            }
        }
    }

    /// Sends one request; returns `None` if another one is needed immediately.
    async fn attempt(
        &mut self,
        sink: &mut impl Sink,
        attempts: &mut Attempts<'_>,
    ) -> Result<Option<Fetched>, Failure> {
        let client = self.client;
        if sink.len_bytes() > 0 && !self.version.exist() {
            sink.restart()?;
        }
        let start = sink.len_bytes();
        if start > 0 && self.total == Some(start) {
            return Ok(Some(Fetched::All));
        }
        let mut headers = Vec::new();
        if start > 0 || self.by_range {
            let range = HeaderValue::try_from(format!("bytes={start}-"));
            headers.extend(range.map(|range| (header::RANGE, range)));
            let condition = self.version.if_range().filter(|_| start > 0);
            headers.extend(condition.map(|value| (header::IF_RANGE, value.clone())));
        }
        let mut answer = client.request(&Method::GET, &headers, attempts).await?;
        match answer.status {
            StatusCode::OK => {}
            StatusCode::PARTIAL_CONTENT if !headers.is_empty() => {
                return self.part(answer, sink, attempts).await;
            }
            StatusCode::RANGE_NOT_SATISFIABLE if start > 0 => {
                return Err(client.changed(" and has become shorter").into());
            }
            StatusCode::UNAUTHORIZED
            | StatusCode::FORBIDDEN
            | StatusCode::NOT_FOUND
            | StatusCode::GONE => return Ok(Some(Fetched::Absent(Box::new(answer)))),
            _ => return Err(client.refused(&mut answer).await),
        }
        client.refuse_encoded(&answer)?;
        let version = Validators::of(&answer.headers);
        if start > 0 {
            // The server sent the whole file instead of the rest: it ignores ranges, or
            // the file has changed.
            let compared = self.version.if_range().is_some();
            self.check(&version, !compared)?;
            sink.restart()?;
        }
        self.version = version;
        self.total = None;
        let expected = match answer.framing {
            Framing::Length(len) => self.whole_of(len, sink),
            Framing::Chunked => Some(Expected::AtMost(self.most_bytes)),
            Framing::Close if !self.by_range => {
                self.by_range = true;
                return Ok(None);
            }
            Framing::Close => {
                return Err(client
                    .problem(
                        "the server announces no length and ends its answer by closing the \
                         connection, so that a download that was cut off would look whole; \
                         download the file by other means, or use another server",
                    )
                    .into());
            }
        };
        let Some(expected) = expected else {
            return Ok(Some(Fetched::TooLong));
        };
        let whole = receive(client, answer, expected, sink, attempts).await?;
        Ok(Some(if whole {
            Fetched::All
        } else {
            Fetched::TooLong
        }))
    }

    /// Receives the response to a range request: the rest of the file, or its first
    /// part.
    async fn part(
        &mut self,
        answer: Answer,
        sink: &mut impl Sink,
        attempts: &mut Attempts<'_>,
    ) -> Result<Option<Fetched>, Failure> {
        let client = self.client;
        let start = sink.len_bytes();
        let version = Validators::of(&answer.headers);
        if start > 0 {
            let compared = self.version.if_range().is_some();
            if !self.check(&version, compared)? {
                sink.restart()?;
                return Ok(None);
            }
        } else {
            self.version = version;
        }
        client.refuse_encoded(&answer)?;
        let stated = client.content_range(&answer)?;
        let sent = range::sent_from(client, &stated, start)?;
        let total = match (stated.total, self.total) {
            (Some(total), Some(known)) if start > 0 && total != known => {
                return Err(range::other_length(client, known, total).into());
            }
            (Some(total), _) => total,
            (None, Some(known)) if start > 0 => known,
            (None, _) => return Err(range::unknown_length(client).into()),
        };
        if sent.end < total && !self.version.exist() {
            return Err(range::not_joinable(client).into());
        }
        self.total = Some(total);
        if self.whole_of(total, sink).is_none() {
            return Ok(Some(Fetched::TooLong));
        }
        let expected = Expected::Exactly(sent.end - sent.start);
        receive(client, answer, expected, sink, attempts).await?;
        Ok((sink.len_bytes() == total).then_some(Fetched::All))
    }

    /// Returns whether a response belongs to the version whose bytes have been
    /// received. The second response that does not is an error.
    fn check(&mut self, version: &Validators, by_server: bool) -> Result<bool> {
        let is_same = self.version.match_those_of(version, by_server);
        if !is_same && self.has_begun_again {
            let difference = self.version.difference(version);
            return Err(self.client.changed(format!(" ({difference})")));
        }
        self.has_begun_again |= !is_same;
        Ok(is_same)
    }

    /// Returns the expected length of a body with the whole file, which has `len`
    /// bytes. Returns `None` if that is too long.
    fn whole_of(&mut self, len: u64, sink: &mut impl Sink) -> Option<Expected> {
        if self.is_capped && len > self.most_bytes {
            return None;
        }
        self.total = Some(len);
        sink.expect(len);
        Some(Expected::Exactly(len))
    }
}
