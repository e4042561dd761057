//! The head and the body of a response.

use std::time::Duration;

use http::{HeaderMap, StatusCode, Version, header};
use reqwest::Response;
use tokio::time::timeout;

use super::client::Client;
use super::observer::InFlight;
use super::range::{ContentRange, number};
use super::retry::{Attempts, Failure};
use crate::{Error, Result};

/// A response whose body has not been read yet.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) framing: Framing,
    pub(super) body: Response,
    /// The time limit for a single read of the body.
    pub(super) silence: Duration,
    /// The requested address, which may contain secrets.
    pub(super) asked: String,
    pub(super) in_flight: Option<Box<InFlight>>,
}

/// How the client recognises the end of the body of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// The length of the body in bytes.
    Length(u64),
    /// A final chunk.
    Chunked,
    /// The end of the connection, which looks the same as a broken connection.
    Close,
}

impl Client {
    /// Returns the framing by which the HTTP library reads the body. Refuses transfer
    /// codings that the library would not decode.
    pub(super) fn framing(
        &self,
        version: Version,
        headers: &HeaderMap,
    ) -> Result<Framing, Failure> {
        let codings: Vec<_> = headers.get_all(header::TRANSFER_ENCODING).iter().collect();
        if let [coding] = codings[..]
            && coding.as_bytes().eq_ignore_ascii_case(b"chunked")
            && version != Version::HTTP_10
        {
            return Ok(Framing::Chunked);
        }
        if !codings.is_empty() {
            let detail = format!("the server sends the file in an unknown encoding: {codings:?}");
            return Err(self.problem(detail).into());
        }
        let Some(value) = headers.get(header::CONTENT_LENGTH) else {
            return Ok(Framing::Close);
        };
        let length = value.to_str().ok().and_then(|text| number(text.trim()));
        let length = length.ok_or_else(|| {
            self.problem(format!("the server announces a body of {value:?} bytes"))
        })?;
        Ok(Framing::Length(length))
    }

    /// Returns the range that a response states in `Content-Range`.
    pub(super) fn content_range(&self, answer: &Answer) -> Result<ContentRange, Error> {
        let Some(value) = answer.headers.get(header::CONTENT_RANGE) else {
            let several = answer
                .headers
                .get(header::CONTENT_TYPE)
                .is_some_and(|kind| kind.as_bytes().starts_with(b"multipart/"));
            return Err(self.problem(if several {
                "the server answered one range with several (multipart/byteranges)"
            } else {
                "the server does not state which bytes it sends, nor the length of the file (no \
                 Content-Range)"
            }));
        };
        let range = value.to_str().ok().and_then(ContentRange::parse);
        range.ok_or_else(|| {
            self.problem(format!(
                "the server sent an invalid Content-Range: {value:?}"
            ))
        })
    }

    /// Refuses a file that is sent compressed although it was requested without
    /// compression.
    pub(super) fn refuse_encoded(&self, answer: &Answer) -> Result<(), Error> {
        let mut codings = answer.headers.get_all(header::CONTENT_ENCODING).iter();
        let other = codings.find(|coding| {
            let coding = coding.as_bytes().trim_ascii();
            !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity")
        });
        other.map_or(Ok(()), |coding| {
            Err(self.problem(format!(
                "the server sent the file compressed ({}), although it was requested \
                 uncompressed; turn compression off for this file on the server",
                coding.to_str().unwrap_or("?")
            )))
        })
    }
}

/// Receives the bytes of a file from one response or several.
pub(super) trait Sink {
    fn len_bytes(&self) -> u64;

    /// Discards all bytes received so far.
    fn restart(&mut self) -> Result<()>;

    fn append(&mut self, bytes: &[u8]) -> Result<()>;

    /// Called with the total length once it is known.
    fn expect(&mut self, _total_bytes: u64) {}
}

impl Sink for Vec<u8> {
    fn len_bytes(&self) -> u64 {
        self.len() as u64
    }

    fn restart(&mut self) -> Result<()> {
        self.clear();
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }
}

/// The expected length of a body.
#[derive(Debug, Clone, Copy)]
pub(super) enum Expected {
    /// Exactly this number of bytes. More are an error; fewer are a failure that may be
    /// retried.
    Exactly(u64),
    /// Any number of bytes up to this limit.
    AtMost(u64),
}

/// Appends the body to `sink`. Returns `false` if it is longer than
/// [`Expected::AtMost`]. After a failure, `sink` retains the bytes that have arrived.
pub(super) async fn receive(
    client: &Client,
    mut answer: Answer,
    expected: Expected,
    sink: &mut impl Sink,
    attempts: &mut Attempts<'_>,
) -> Result<bool, Failure> {
    let (most, exact) = match expected {
        Expected::Exactly(len) => (len, Some(len)),
        Expected::AtMost(most) => (most, None),
    };
    if let (Some(len), Framing::Length(announced)) = (exact, answer.framing)
        && announced > len
    {
        return Err(too_long(client, len));
    }
    let mut got = 0;
    attempts.begin_body();
    loop {
        let Ok(piece) = timeout(answer.silence, answer.body.chunk()).await else {
            return Err(client.stalled());
        };
        let piece = match piece {
            Ok(piece) => piece,
            // Servers may break a connection after the last byte.
            Err(_) if exact == Some(got) => None,
            Err(error) => return Err(client.broken(&error, got, exact)),
        };
        let piece = piece.as_deref().unwrap_or_default();
        client.count(piece.len());
        if let Some(in_flight) = &mut answer.in_flight {
            in_flight.received(piece.len());
        }
        if piece.len() as u64 > most - got {
            return match exact {
                Some(len) => Err(too_long(client, len)),
                None => Ok(false),
            };
        }
        if piece.is_empty() {
            return match exact {
                Some(len) if got < len => Err(client.cut(got, exact)),
                _ => Ok(true),
            };
        }
        got += piece.len() as u64;
        sink.append(piece)?;
        let goes_on = attempts.received(piece.len(), sink.len_bytes());
        if !goes_on && exact != Some(got) {
            return Err(client.stalled());
        }
    }
}

fn too_long(client: &Client, len: u64) -> Failure {
    let detail = format!("the server sent more than the {len} bytes of its answer");
    client.problem(detail).into()
}
