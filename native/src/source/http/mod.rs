//! Files on web servers, read by range or as a whole.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use ureq::http::{Method, StatusCode, header};

use super::{Location, Source, merged};
use crate::Result;
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
pub(crate) use put::put_watched;
pub(super) use secrets::origin;
#[cfg(feature = "manifest")]
pub(crate) use transport::Transport;
pub use transport::trust_certificates;
pub(super) use whole::download;
pub(super) use whole::small;
pub(super) use whole::without_ranges;

/// A file at an http(s) address, or in a hub (`hf://`). Opening it reads its first
/// bytes, because that response states its length and version. Every later response is
/// compared with these, and is refused unless it contains exactly the requested bytes.
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
        };
        remote.fill(&mut head, 0..expected)?;
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

    /// Fetches the rest of `range`, of which `bytes` contains the beginning.
    fn fill(&self, bytes: &mut Vec<u8>, range: Range<u64>) -> Result<()> {
        if bytes.len() as u64 == range.end - range.start {
            return Ok(());
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
                self.ask(bytes, rest.clone(), progress)?;
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
        progress: &mut Progress<'_>,
    ) -> Result<(), Failure> {
        let client = &self.client;
        let mut headers = vec![ranges::header(&rest)];
        let condition = self.version.if_range();
        let condition = condition.filter(|_| !self.misreads_conditions.load(Relaxed));
        headers.extend(condition.map(|value| (header::IF_RANGE, value.clone())));
        let mut answer = client.request(&Method::GET, &headers, progress)?;
        let version = Validators::of(&answer.headers);
        let compared = condition.is_some();
        match answer.status {
            StatusCode::PARTIAL_CONTENT => {
                if !self.version.match_those_of(&version, compared) {
                    return Err(client.changed(self.version.difference(&version)).into());
                }
            }
            // The whole file in reply to `If-Range` means that the file has changed,
            // unless its validators show otherwise.
            StatusCode::OK if !self.version.match_those_of(&version, !compared) => {
                return Err(client.changed(self.version.difference(&version)).into());
            }
            StatusCode::OK if compared => {
                self.misreads_conditions.store(true, Relaxed);
                return self.ask(bytes, rest, progress);
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
}

impl Source for Remote {
    fn name(&self) -> &str {
        self.client.shown()
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
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
        self.fill(&mut bytes, range)?;
        Ok(Cow::Owned(bytes))
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Cow<'_, [u8]>>> {
        merged::read(self, ranges)
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
