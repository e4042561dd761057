//! The head of a response.

use ureq::Body;
use ureq::http::{HeaderMap, StatusCode, Version, header};

use super::client::Client;
use super::content_range::{ContentRange, number};
use super::observer::InFlight;
use super::retry::Failure;
use crate::Error;

/// A response whose body has not been read yet.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) framing: Framing,
    pub(super) body: Body,
    /// The requested address, which may contain secrets.
    pub(super) asked: String,
    pub(super) in_flight: Option<Box<InFlight>>,
}

/// How a client recognises the end of a body.
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
