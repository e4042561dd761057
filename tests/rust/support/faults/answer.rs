//! Data types for the answers that `tests/faults/server.json` describes.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;

/// An HTTP answer. The default is the correct answer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Answer {
    /// The status; by default 206 for a range and 200 for a whole file. An answer with
    /// a status of 300 or above has the body `no`.
    pub status: Option<u16>,
    /// Headers to add or replace; `null` removes a header. In values, `{first}`,
    /// `{last}`, `{total}` and `{len}` describe the bytes sent, `{other}` is the
    /// address of the second origin, `{date}` is the current time and `{date+60}` a
    /// minute later.
    pub headers: BTreeMap<String, Option<String>>,
    /// Request headers that the server ignores: `Range`, `If-Range`.
    pub ignores: Vec<String>,
    /// The version of the file that is sent.
    pub file: Version,
    /// The bytes that are sent, relative to the requested range.
    pub sends: Sends,
    /// Compresses the body and sets `Content-Encoding`.
    pub gzip: bool,
    /// Text that is appended to the body.
    pub append: String,
    /// How the end of the body is marked.
    pub framing: Framing,
    /// Shortens the body to this many bytes and announces that length.
    pub body_bytes: Option<usize>,
    /// Sends only this many bytes of the announced body.
    pub cut_bytes: Option<usize>,
    /// Bytes sent before the answer.
    pub before: Vec<Piece>,
    /// Bytes sent instead of the answer.
    pub raw: Option<Vec<Piece>>,
    /// Sends the body slowly, one byte at a time.
    pub trickle: bool,
    /// The action of the server after the answer.
    pub end: End,
}

/// A version of the served file. Both versions have the same length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Version {
    /// The file that the test expects.
    #[default]
    Model,
    /// A file with the same layout and different tensor values.
    Other,
}

/// How the bytes sent differ from the requested ones.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sends {
    /// Offset added to the start of the range.
    pub start: i64,
    /// Offset added to the end of the range.
    pub end: i64,
    /// Start of the bytes sent. Their number stays the length of the requested range.
    pub position: Option<usize>,
    /// Maximum number of bytes sent.
    pub at_most: Option<usize>,
    /// Sends only the first half of the range.
    pub half: bool,
}

/// How the end of a body is marked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Framing {
    /// The `Content-Length` header.
    #[default]
    Length,
    /// The last chunk of the chunked transfer coding.
    Chunked,
    /// The end of the connection.
    Close,
}

/// The action of a server after an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It waits for the next request.
    #[default]
    Keep,
    /// It closes the connection.
    Close,
    /// It resets the connection, after `cut_bytes` if set, otherwise instead of
    /// answering.
    Reset,
    /// It sends nothing and leaves the connection open, after `cut_bytes` if set,
    /// otherwise instead of answering.
    Stall,
    /// It sends more data until the client closes the connection.
    Endless,
    /// It sends single bytes slowly until the client closes the connection.
    Drip,
}

/// Bytes that are sent verbatim.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Piece {
    /// A string whose characters `\u0000` to `\u00ff` are sent as single bytes.
    Text(String),
    /// A string that is sent several times.
    Repeated {
        /// The string.
        repeat: String,
        /// How many times it is sent.
        times: usize,
    },
}

impl Piece {
    /// Returns the bytes to send.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let latin = |text: &str| text.chars().map(|char| char as u8).collect::<Vec<_>>();
        match self {
            Self::Text(text) => latin(text),
            Self::Repeated { repeat, times } => latin(repeat).repeat(*times),
        }
    }
}

impl Answer {
    /// Returns whether the server ignores the header called `name`.
    #[must_use]
    pub fn ignores(&self, name: &str) -> bool {
        self.ignores.iter().any(|ignored| ignored == name)
    }

    /// Combines this answer with the general behaviour of `server`: adds its headers
    /// and ignores the request headers that it ignores.
    #[must_use]
    pub fn on(&self, server: &Self) -> Self {
        let mut answer = self.clone();
        for (name, value) in &server.headers {
            let known = answer
                .headers
                .keys()
                .any(|own| own.eq_ignore_ascii_case(name));
            // An answer with a status of 300 or above does not describe the file.
            if !known && self.status.is_none_or(|status| status < 300) {
                answer.headers.insert(name.clone(), value.clone());
            }
        }
        answer.ignores.extend(server.ignores.iter().cloned());
        answer
    }

    /// Returns whether a client can notice this fault in the answer to a request for
    /// `range` of a file of `total` bytes. Extra bytes after the range only exist if
    /// the range ends before the file does.
    #[must_use]
    pub fn is_noticed_in(&self, range: Option<&Range<usize>>, total: usize) -> bool {
        self.sends.end <= 0 || range.is_some_and(|range| range.end < total)
    }
}
