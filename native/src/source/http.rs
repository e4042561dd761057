//! A file on a server, read by ranges.

use std::borrow::Cow;
use std::io::Read;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use ureq::Agent;
use ureq::http::{Response, StatusCode, header};

use super::Source;
use crate::{Error, Result};

/// A file behind an http(s) address. Its first bytes are read on opening,
/// since that is how its length is learnt.
#[derive(Debug)]
pub struct Remote {
    agent: Agent,
    url: String,
    len_bytes: u64,
    /// The bytes read on opening, handed out once.
    head: Mutex<Option<Vec<u8>>>,
    requests: AtomicU64,
    fetched_bytes: AtomicU64,
}

pub(super) fn agent() -> Agent {
    Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(Duration::from_secs(20)))
        .timeout_recv_response(Some(Duration::from_secs(60)))
        .user_agent(concat!("zstn/", env!("CARGO_PKG_VERSION")))
        .build()
        .into()
}

pub(super) fn problem(url: &str, detail: impl Into<String>) -> Error {
    Error::Http {
        url: url.into(),
        detail: detail.into(),
    }
}

/// A sentence for a status that is not the one hoped for.
pub(super) fn refused(url: &str, status: StatusCode) -> Error {
    let advice = match status.as_u16() {
        401 | 403 => "; the file may need a login",
        404 | 410 => "; there is no such file, check the address",
        429 => "; too many requests, try again later",
        500..=599 => "; the server has a problem, try again later",
        _ => "",
    };
    problem(url, format!("the server answered {status}{advice}"))
}

impl Remote {
    /// Reads the first `head_len_bytes` bytes of the file at `url` and learns
    /// its length from the answer.
    pub fn open(url: &str, head_len_bytes: u64) -> Result<Self> {
        Self::open_ranged(url, head_len_bytes)?.ok_or_else(|| ignores_ranges(url))
    }

    /// As [`Remote::open`], with `None` for a server that ignores ranges.
    pub(crate) fn open_ranged(url: &str, head_len_bytes: u64) -> Result<Option<Self>> {
        let agent = agent();
        let response = get(&agent, url, 0..head_len_bytes)?;
        let len_bytes = match response.status() {
            StatusCode::PARTIAL_CONTENT => total_len(&response)
                .ok_or_else(|| problem(url, "the server does not say how long the file is"))?,
            // What a server says to any range of an empty file.
            StatusCode::RANGE_NOT_SATISFIABLE => 0,
            StatusCode::OK => return Ok(None),
            status => return Err(refused(url, status)),
        };
        let expected = len_bytes.min(head_len_bytes);
        let head = if expected == 0 {
            Vec::new()
        } else {
            body(url, response, expected)?
        };
        Ok(Some(Self {
            agent,
            url: url.into(),
            len_bytes,
            fetched_bytes: AtomicU64::new(head.len() as u64),
            head: Mutex::new(Some(head)),
            requests: AtomicU64::new(1),
        }))
    }

    /// Requests made so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// Body bytes fetched so far.
    #[must_use]
    pub fn fetched_bytes(&self) -> u64 {
        self.fetched_bytes.load(Relaxed)
    }
}

impl Source for Remote {
    fn name(&self) -> &str {
        &self.url
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
        let response = get(&self.agent, &self.url, range.clone())?;
        match response.status() {
            StatusCode::PARTIAL_CONTENT => {}
            StatusCode::OK => return Err(ignores_ranges(&self.url)),
            status => return Err(refused(&self.url, status)),
        }
        if total_len(&response).is_some_and(|len| len != self.len_bytes) {
            return Err(problem(
                &self.url,
                "the file has changed since it was opened",
            ));
        }
        let bytes = body(&self.url, response, range.end - range.start)?;
        self.requests.fetch_add(1, Relaxed);
        self.fetched_bytes.fetch_add(bytes.len() as u64, Relaxed);
        Ok(Cow::Owned(bytes))
    }
}

fn ignores_ranges(url: &str) -> Error {
    problem(
        url,
        "the server ignores range requests, so single tensors cannot be read from it; download \
         the file or use another server",
    )
}

fn get(agent: &Agent, url: &str, range: Range<u64>) -> Result<Response<ureq::Body>> {
    agent
        .get(url)
        .header(
            header::RANGE,
            format!("bytes={}-{}", range.start, range.end.max(1) - 1),
        )
        // Ranges are of the file, not of a compressed copy of it.
        .header(header::ACCEPT_ENCODING, "identity")
        .call()
        .map_err(|error| problem(url, format!("cannot be reached: {error}")))
}

/// Length of the whole file from `Content-Range: bytes a-b/len`.
fn total_len(response: &Response<ureq::Body>) -> Option<u64> {
    let value = response.headers().get(header::CONTENT_RANGE)?;
    value.to_str().ok()?.rsplit('/').next()?.parse().ok()
}

fn body(url: &str, response: Response<ureq::Body>, len_bytes: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = response
        .into_body()
        .into_reader()
        .take(len_bytes + 1)
        .read_to_end(&mut bytes);
    if bytes.len() as u64 == len_bytes {
        return Ok(bytes);
    }
    let why = read.map_or_else(|error| format!(" ({error})"), |_| String::new());
    Err(problem(
        url,
        format!(
            "the answer has {} bytes where {len_bytes} were asked for{why}; the connection broke \
             or the file is cut off, try again",
            bytes.len()
        ),
    ))
}
