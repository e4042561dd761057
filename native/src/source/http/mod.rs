//! Files on web servers, read by range or as a whole.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

use ureq::http::{Method, StatusCode, header};

use super::{Location, Source, merged};
use crate::{Error, Result};
use body::{Expected, receive};
use client::Client;
use opening::{Opened, ask_len, first};
use retry::{Failure, Progress, retrying};
use validator::Validators;

mod answer;
mod body;
mod client;
mod content_range;
mod failure;
mod forward;
mod observer;
mod opening;
mod options;
mod put;
mod ranges;
mod reason;
mod retry;
mod secrets;
mod transport;
mod validator;
mod whole;

pub use observer::{HttpObserver, HttpRequest};
pub use options::HttpOptions;
pub(crate) use put::check_absent;
pub use put::put;
pub use put::put_watched;
pub(super) use secrets::origin;
pub use transport::Transport;
pub use transport::trust_certificates;
pub(super) use whole::download;
pub(super) use whole::small;
pub(super) use whole::without_ranges;

/// A file at an http(s) address, or in a hub (`hf://`). Opening it reads its first
/// bytes, because that response states its length and version. Every later response is
/// compared with these, and is refused unless it contains exactly the requested bytes.
/// Bytes of another version are only accepted if the caller compares them with
/// checksums.
///
/// [`Source::read_ranges`] sends up to 8 requests at the same time. Ranges with at most
/// 64 KiB between them are merged into one request of at most 16 MiB.
#[derive(Debug)]
pub struct Remote {
    client: Client,
    len_bytes: u64,
    version: Validators,
    /// The bytes that were read on opening. The first read of exactly these bytes takes
    /// them.
    head: Mutex<Option<Vec<u8>>>,
    /// True if the server answers `If-Range` with the whole file although it is the
    /// same version. Ranges are then requested without that condition, and each
    /// answer's validators are compared here.
    misreads_conditions: AtomicBool,
    /// How the validators of a response first differed from those of the opening,
    /// although its bytes were accepted because the caller compares them with
    /// checksums. Such bytes may be part of the catalog by which the file is read, so
    /// all reads that are not compared with checksums fail from then on.
    other: OnceLock<String>,
}

impl Remote {
    /// Opens the file at `url`. Reads its first `head_len_bytes` bytes, and takes its
    /// length from the response.
    pub fn open(url: &str, head_len_bytes: u64, options: &HttpOptions) -> Result<Self> {
        let client = Client::new(url, options)?;
        Self::begin(client, head_len_bytes)?.map_err(|client| ranges::ignored(&client))
    }

    /// Opens the file like [`Remote::open`]; returns `None` if the server ignores
    /// ranges.
    pub(super) fn open_ranged(
        url: &str,
        head_len_bytes: u64,
        options: &HttpOptions,
    ) -> Result<Option<Self>> {
        let client = Client::new(url, options)?;
        Ok(Self::begin(client, head_len_bytes)?.ok())
    }

    fn begin(client: Client, head_len_bytes: u64) -> Result<Result<Self, Client>> {
        let most = head_len_bytes.max(1);
        let opened = retrying(client.options(), |progress| first(&client, most, progress))?;
        let Some(Opened {
            len_bytes,
            version,
            mut head,
        }) = opened
        else {
            return Ok(Err(client));
        };
        let len_bytes = match len_bytes {
            Some(len) => len,
            None => retrying(client.options(), |progress| {
                ask_len(&client, &version, progress)
            })?,
        };
        let expected = len_bytes.min(head_len_bytes);
        head.truncate(usize::try_from(expected).unwrap_or(usize::MAX));
        let remote = Self {
            client,
            len_bytes,
            version,
            head: Mutex::new(None),
            misreads_conditions: AtomicBool::new(false),
            other: OnceLock::new(),
        };
        remote.fill(&mut head, 0..expected, false)?;
        Ok(Ok(Self {
            head: Mutex::new(Some(head)),
            ..remote
        }))
    }

    /// Returns the number of requests so far, including retries.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.client.requests()
    }

    /// Returns the number of body bytes fetched so far.
    #[must_use]
    pub fn fetched_bytes(&self) -> u64 {
        self.client.received_bytes()
    }

    /// Fetches the rest of `range`; `bytes` contains its beginning. If `is_compared` is
    /// true, the rest may come from another version ([`Source::read_compared`]).
    fn fill(&self, bytes: &mut Vec<u8>, range: Range<u64>, is_compared: bool) -> Result<()> {
        if bytes.len() as u64 == range.end - range.start {
            return Ok(());
        }
        if let Some(difference) = self.other.get().filter(|_| !is_compared) {
            return Err(ranges::other_version(&self.client, difference));
        }
        retrying(self.client.options(), |progress| {
            // Parts of two responses may only be joined if a change of the file would
            // be noticed.
            if !self.version.exist() {
                bytes.clear();
            }
            let mut short_answers = 0;
            loop {
                let rest = range.start + bytes.len() as u64..range.end;
                if rest.is_empty() {
                    return Ok(());
                }
                self.ask(bytes, rest.clone(), is_compared, progress)?;
                if range.start + (bytes.len() as u64) < range.end {
                    ranges::count_short(&self.client, &mut short_answers)?;
                }
            }
        })
    }

    /// Sends one request for `rest` and appends the bytes that the server sends, which
    /// may be fewer.
    fn ask(
        &self,
        bytes: &mut Vec<u8>,
        rest: Range<u64>,
        is_compared: bool,
        progress: &mut Progress<'_>,
    ) -> Result<(), Failure> {
        let client = &self.client;
        let mut headers = vec![ranges::header(&rest)];
        let condition = self.version.if_range();
        let condition = condition.filter(|_| !self.misreads_conditions.load(Relaxed));
        headers.extend(condition.map(|value| (header::IF_RANGE, value.clone())));
        let mut answer = client.request(&Method::GET, &headers, progress)?;
        let version = Validators::of(&answer.headers);
        let by_server = condition.is_some();
        match answer.status {
            StatusCode::PARTIAL_CONTENT => self.check(&version, by_server, is_compared)?,
            // The whole file in reply to `If-Range` means that the file has changed,
            // unless its validators show otherwise.
            StatusCode::OK if by_server => {
                self.check(&version, false, is_compared)?;
                self.misreads_conditions.store(true, Relaxed);
                return self.ask(bytes, rest, is_compared, progress);
            }
            StatusCode::OK if !self.version.match_those_of(&version, true) => {
                let difference = self.version.difference(&version);
                return Err(ranges::other_version(client, &difference).into());
            }
            StatusCode::OK => return Err(ranges::ignored(client).into()),
            StatusCode::RANGE_NOT_SATISFIABLE => {
                return Err(client.changed(" and has become shorter").into());
            }
            _ => return Err(client.refused(&mut answer)),
        }
        client.refuse_encoded(&answer)?;
        let range = client.content_range(&answer)?;
        if let Some(total) = range.total.filter(|total| *total != self.len_bytes) {
            return Err(ranges::other_length(client, self.len_bytes, total).into());
        }
        let sent = ranges::sent_from(client, &range, rest.start)?;
        if sent.end > rest.end {
            return Err(ranges::beyond(client, &sent, &rest).into());
        }
        if sent.end < rest.end && !self.version.exist() {
            return Err(ranges::not_joinable(client).into());
        }
        let expected = Expected::Exactly(sent.end - sent.start);
        receive(client, answer, expected, bytes, progress)?;
        Ok(())
    }

    /// Refuses a response of another version, unless its bytes are compared with
    /// checksums. `by_server` is true if the server has compared the version itself
    /// (`If-Range`).
    fn check(&self, version: &Validators, by_server: bool, is_compared: bool) -> Result<()> {
        if self.version.match_those_of(version, by_server) {
            return Ok(());
        }
        let difference = self.version.difference(version);
        if !is_compared {
            return Err(ranges::other_version(&self.client, &difference));
        }
        self.other.get_or_init(|| difference);
        Ok(())
    }

    fn read_as(&self, range: Range<u64>, is_compared: bool) -> Result<Cow<'_, [u8]>> {
        if range.is_empty() {
            return Ok(Cow::Borrowed(&[]));
        }
        if range.start == 0
            && let Ok(mut head) = self.head.lock()
            && let Some(bytes) = head.take_if(|head| head.len() as u64 == range.end)
        {
            return Ok(Cow::Owned(bytes));
        }
        let mut bytes = Vec::new();
        self.fill(&mut bytes, range, is_compared)?;
        Ok(Cow::Owned(bytes))
    }
}

impl Source for Remote {
    fn name(&self) -> &str {
        self.client.shown()
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        self.read_as(range, false)
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Cow<'_, [u8]>>> {
        merged::read(self, ranges, |range| self.read_as(range, false))
    }

    fn read_compared(&self, ranges: &[Range<u64>]) -> Result<Vec<Cow<'_, [u8]>>> {
        merged::read(self, ranges, |range| self.read_as(range, true))
    }

    fn other_version(&self) -> Option<Error> {
        let difference = self.other.get()?;
        Some(ranges::not_its_checksums(&self.client, difference))
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn is_one_version(&self) -> bool {
        self.version.if_range().is_some()
    }

    fn pinned_location(&self) -> Option<Location> {
        self.client.pinned().map(Location::Url)
    }
}
