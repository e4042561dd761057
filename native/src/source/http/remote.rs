//! A file on a web server that is read by range.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

use futures_util::{StreamExt, TryStreamExt, stream};
use http::{Method, StatusCode, header};

use super::answer::{Answer, Expected, Framing, receive};
use super::client::Client;
use super::range::{self, ContentRange};
use super::retry::{Attempts, Failure};
use super::validator::Validators;
use super::{HttpOptions, wait, wait_unless_cancelled};
use crate::error::is_retryable_status;
use crate::source::async_source::within;
use crate::source::merged::{MergedRange, in_order};
use crate::source::parallel::READS_AT_ONCE;
use crate::source::{Location, Source, check_inside};
use crate::{Error, Result};

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
    /// How the validators of a response first differed from the validators of the
    /// opening response, although the bytes of that response were accepted because the
    /// caller compares them with checksums. Such bytes may be part of the catalog by
    /// which the file is read, so all reads that are not compared with checksums fail
    /// from then on.
    other: OnceLock<String>,
}

impl Remote {
    /// Opens the file at `url`. Reads its first `head_len_bytes` bytes, and takes its
    /// length from the response.
    pub fn open(url: &str, head_len_bytes: u64, options: &HttpOptions) -> Result<Self> {
        let client = Client::new(url, options)?;
        let opened = wait(Self::begin(client, head_len_bytes))?;
        opened.map_err(|client| range::ignored(&client))
    }

    /// Opens the file like [`Remote::open`]; returns `None` if the server ignores
    /// ranges.
    pub(in crate::source) fn open_ranged(
        url: &str,
        head_len_bytes: u64,
        options: &HttpOptions,
    ) -> Result<Option<Self>> {
        let beginning = Self::begin_ranged(url, head_len_bytes, options);
        wait_unless_cancelled(&options.cancel_token, beginning)
    }

    /// Opens the file like [`Remote::open_ranged`], without blocking a thread.
    pub(super) async fn begin_ranged(
        url: &str,
        head_len_bytes: u64,
        options: &HttpOptions,
    ) -> Result<Option<Self>> {
        let client = Client::new(url, options)?;
        Ok(Self::begin(client, head_len_bytes).await?.ok())
    }

    /// Opens the file at `url` like [`Remote::open`], without blocking a thread.
    ///
    /// # Errors
    /// The errors of [`Remote::open`].
    pub async fn open_async(url: &str, head_len_bytes: u64, options: &HttpOptions) -> Result<Self> {
        let client = Client::new(url, options)?;
        let opened = within(Self::begin(client, head_len_bytes)).await?;
        opened.map_err(|client| range::ignored(&client))
    }

    async fn begin(client: Client, head_len_bytes: u64) -> Result<Result<Self, Client>> {
        let Some(opened) = first(&client, head_len_bytes.max(1)).await? else {
            return Ok(Err(client));
        };
        let len_bytes = match opened.len_bytes {
            Some(len) => len,
            None => ask_len(&client, &opened.version).await?,
        };
        let mut head = opened.head;
        let expected = len_bytes.min(head_len_bytes);
        head.truncate(usize::try_from(expected).unwrap_or(usize::MAX));
        let remote = Self {
            client,
            len_bytes,
            version: opened.version,
            head: Mutex::new(None),
            misreads_conditions: AtomicBool::new(false),
            other: OnceLock::new(),
        };
        remote.fill(&mut head, 0..expected, false).await?;
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
    async fn fill(&self, bytes: &mut Vec<u8>, range: Range<u64>, is_compared: bool) -> Result<()> {
        if bytes.len() as u64 == range.end - range.start {
            return Ok(());
        }
        if let Some(difference) = self.other.get().filter(|_| !is_compared) {
            return Err(range::other_version(&self.client, difference));
        }
        let mut attempts = Attempts::begin(self.client.options());
        loop {
            let attempt = self.attempt(bytes, range.clone(), is_compared, &mut attempts);
            match attempt.await {
                Ok(()) => return Ok(()),
                Err(failure) => attempts.retry(failure).await?,
            }
        }
    }

    async fn attempt(
        &self,
        bytes: &mut Vec<u8>,
        range: Range<u64>,
        is_compared: bool,
        attempts: &mut Attempts<'_>,
    ) -> Result<(), Failure> {
        // Parts of two responses may only be joined if a change of the file would be
        // noticed.
        if !self.version.exist() {
            bytes.clear();
        }
        let mut short_answers = 0;
        loop {
            let rest = range.start + bytes.len() as u64..range.end;
            if rest.is_empty() {
                return Ok(());
            }
            self.ask(bytes, rest, is_compared, attempts).await?;
            if range.start + (bytes.len() as u64) < range.end {
                range::count_short(&self.client, &mut short_answers)?;
            }
        }
    }

    /// Sends one request for `rest` and appends the bytes that the server sends, which
    /// may be fewer.
    async fn ask(
        &self,
        bytes: &mut Vec<u8>,
        rest: Range<u64>,
        is_compared: bool,
        attempts: &mut Attempts<'_>,
    ) -> Result<(), Failure> {
        let client = &self.client;
        let answer = loop {
            let mut headers = vec![range::header(&rest)];
            let condition = self.version.if_range();
            let condition = condition.filter(|_| !self.misreads_conditions.load(Relaxed));
            headers.extend(condition.map(|value| (header::IF_RANGE, value.clone())));
            let mut answer = client.request(&Method::GET, &headers, attempts).await?;
            let version = Validators::of(&answer.headers);
            let by_server = condition.is_some();
            match answer.status {
                StatusCode::PARTIAL_CONTENT => {
                    self.check(&version, by_server, is_compared)?;
                    break answer;
                }
                // The whole file in reply to `If-Range` means that the file has changed,
                // unless its validators show otherwise.
                StatusCode::OK if by_server => {
                    self.check(&version, false, is_compared)?;
                    self.misreads_conditions.store(true, Relaxed);
                }
                StatusCode::OK if !self.version.match_those_of(&version, true) => {
                    let difference = self.version.difference(&version);
                    return Err(range::other_version(client, &difference).into());
                }
                StatusCode::OK => return Err(range::ignored(client).into()),
                StatusCode::RANGE_NOT_SATISFIABLE => {
                    return Err(client.changed(" and has become shorter").into());
                }
                _ => return Err(client.refused(&mut answer).await),
            }
        };
        client.refuse_encoded(&answer)?;
        let stated = client.content_range(&answer)?;
        if let Some(total) = stated.total.filter(|total| *total != self.len_bytes) {
            return Err(range::other_length(client, self.len_bytes, total).into());
        }
        let sent = range::sent_from(client, &stated, rest.start)?;
        if sent.end > rest.end {
            return Err(range::beyond(client, &sent, &rest).into());
        }
        if sent.end < rest.end && !self.version.exist() {
            return Err(range::not_joinable(client).into());
        }
        let expected = Expected::Exactly(sent.end - sent.start);
        receive(client, answer, expected, bytes, attempts).await?;
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
            return Err(range::other_version(&self.client, &difference));
        }
        self.other.get_or_init(|| difference);
        Ok(())
    }

    fn wait<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        wait_unless_cancelled(&self.client.options().cancel_token, work)
    }

    /// Reads a range. If `is_compared` is true, its bytes may come from another version
    /// ([`Source::read_compared`]).
    pub(in crate::source) async fn fetch(
        &self,
        range: Range<u64>,
        is_compared: bool,
    ) -> Result<Vec<u8>> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        if range.start == 0
            && let Ok(mut head) = self.head.lock()
            && let Some(bytes) = head.take_if(|head| head.len() as u64 == range.end)
        {
            return Ok(bytes);
        }
        let mut bytes = Vec::new();
        self.fill(&mut bytes, range, is_compared).await?;
        Ok(bytes)
    }

    /// Reads ranges with several requests at the same time. Ranges that are close
    /// together are read by one request.
    pub(in crate::source) async fn fetch_ranges(
        &self,
        ranges: &[Range<u64>],
        is_compared: bool,
    ) -> Result<Vec<Cow<'static, [u8]>>> {
        for range in ranges {
            check_inside(self, range)?;
        }
        let merged = MergedRange::of(ranges);
        let requests = merged.iter().map(|merged| async move {
            let bytes = self.fetch(merged.range.clone(), is_compared).await?;
            Ok(merged.split(ranges, Cow::Owned(bytes)))
        });
        let requests: Vec<_> = requests.collect();
        let fetched = stream::iter(requests).buffered(READS_AT_ONCE);
        let fetched: Result<Vec<_>> = fetched.try_collect().await;
        Ok(in_order(ranges.len(), fetched?))
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
        self.wait(self.fetch(range, false)).map(Cow::Owned)
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Cow<'_, [u8]>>> {
        self.wait(self.fetch_ranges(ranges, false))
    }

    fn read_compared(&self, ranges: &[Range<u64>]) -> Result<Vec<Cow<'_, [u8]>>> {
        self.wait(self.fetch_ranges(ranges, true))
    }

    fn other_version(&self) -> Option<Error> {
        let difference = self.other.get()?;
        Some(range::not_its_checksums(&self.client, difference))
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

/// The contents of the first response.
struct Opened {
    /// The length of the file; `None` if the server does not state it.
    len_bytes: Option<u64>,
    version: Validators,
    head: Vec<u8>,
}

/// Reads the first `most` bytes. Returns `None` if the server ignores ranges.
async fn first(client: &Client, most: u64) -> Result<Option<Opened>> {
    let mut attempts = Attempts::begin(client.options());
    loop {
        match first_once(client, most, &mut attempts).await {
            Ok(opened) => return Ok(opened),
            Err(failure) => attempts.retry(failure).await?,
        }
    }
}

/// Makes one attempt to read the first `most` bytes. Returns `None` if the server
/// ignores ranges.
async fn first_once(
    client: &Client,
    most: u64,
    attempts: &mut Attempts<'_>,
) -> Result<Option<Opened>, Failure> {
    let headers = [range::header(&(0..most))];
    let mut answer = client.request(&Method::GET, &headers, attempts).await?;
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
        _ => return Err(client.refused(&mut answer).await),
    }
    client.refuse_encoded(&answer)?;
    let stated = client.content_range(&answer)?;
    let sent = range::sent_from(client, &stated, 0)?;
    if sent.end > most {
        return Err(range::beyond(client, &sent, &(0..most)).into());
    }
    let is_short = sent.end < most.min(stated.total.unwrap_or(sent.end));
    if is_short && !version.exist() {
        return Err(range::not_joinable(client).into());
    }
    let expected = Expected::Exactly(sent.end);
    receive(client, answer, expected, &mut head, attempts).await?;
    Ok(Some(Opened {
        len_bytes: stated.total,
        version,
        head,
    }))
}

/// Requests the length of the file separately.
async fn ask_len(client: &Client, version: &Validators) -> Result<u64> {
    let mut attempts = Attempts::begin(client.options());
    loop {
        match ask_len_once(client, version, &mut attempts).await {
            Ok(len) => return Ok(len),
            Err(failure) => attempts.retry(failure).await?,
        }
    }
}

async fn ask_len_once(
    client: &Client,
    version: &Validators,
    attempts: &mut Attempts<'_>,
) -> Result<u64, Failure> {
    let mut answer = client.request(&Method::HEAD, &[], attempts).await?;
    if is_retryable_status(answer.status.as_u16()) {
        return Err(client.refused(&mut answer).await);
    }
    // With other statuses the length stays unknown: signed addresses are often valid
    // for GET only.
    client.refuse_encoded(&answer)?;
    match answer.framing {
        Framing::Length(len) if answer.status == StatusCode::OK => {
            let answered = Validators::of(&answer.headers);
            if !version.match_those_of(&answered, true) {
                let difference = version.difference(&answered);
                return Err(range::other_version(client, &difference).into());
            }
            Ok(len)
        }
        _ => Err(range::unknown_length(client).into()),
    }
}

/// Returns whether a response with status 416 states that the file is empty. An empty
/// file has no ranges.
fn says_empty(client: &Client, answer: &Answer) -> bool {
    client
        .content_range(answer)
        .is_ok_and(|ContentRange { total, .. }| total == Some(0))
}
