//! The words in which `tests/faults/server.json` describes an answer.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;

/// An answer. By default it is the right one.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Answer {
    /// The status; by default that of the bytes sent, 206 or 200. An answer with
    /// another status has the body `no`.
    pub status: Option<u16>,
    /// Headers to add or replace; `null` removes one. In values, `{first}`,
    /// `{last}`, `{total}` and `{len}` describe the bytes sent, `{other}` is the
    /// address of the second origin, `{date}` the time and `{date+60}` a minute
    /// later.
    pub headers: BTreeMap<String, Option<String>>,
    /// Headers of the request that the server disregards: `Range`, `If-Range`.
    pub ignores: Vec<String>,
    /// Which version of the file is sent.
    pub file: Version,
    /// Which bytes are sent, if not those asked for.
    pub sends: Sends,
    /// Compresses the body and says so.
    pub gzip: bool,
    /// Text after the body.
    pub append: String,
    /// How the end of the body is marked.
    pub framing: Framing,
    /// Ends the body after this many bytes, and announces that length.
    pub body_bytes: Option<usize>,
    /// Sends this many bytes of the announced body.
    pub cut_bytes: Option<usize>,
    /// Sent before the answer.
    pub before: Vec<Piece>,
    /// Sent instead of the answer.
    pub raw: Option<Vec<Piece>>,
    /// Sends the body one byte at a time.
    pub trickle: bool,
    /// What follows the answer.
    pub end: End,
}

/// A version of the served file. Both have the same length.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Version {
    /// The file that the test expects.
    #[default]
    Model,
    /// A file with other tensors.
    Other,
}

/// The difference between the bytes sent and those asked for.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sends {
    /// Added to the first position.
    pub start: i64,
    /// Added to the end.
    pub end: i64,
    /// The first byte sent; as many bytes follow as were asked for.
    pub position: Option<usize>,
    /// The most bytes that are sent.
    pub at_most: Option<usize>,
    /// Sends the first half.
    pub half: bool,
}

/// How the end of a body is marked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Framing {
    /// By `Content-Length`.
    #[default]
    Length,
    /// By a last chunk.
    Chunked,
    /// By the end of the connection.
    Close,
}

/// What follows an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The next request.
    #[default]
    Keep,
    /// The connection is closed.
    Close,
    /// The connection is reset: after `cut_bytes`, or instead of the answer.
    Reset,
    /// Nothing, on an open connection: after `cut_bytes`, or instead of the
    /// answer.
    Stall,
    /// Zeros, until the client is gone.
    Endless,
    /// Single bytes, until the client is gone.
    Drip,
}

/// Bytes that are sent as they are.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Piece {
    /// A text. `\u0000` to `\u00ff` are single bytes.
    Text(String),
    /// The same text several times.
    Repeated {
        /// The text.
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
    /// Returns whether the server disregards the header called `name`.
    #[must_use]
    pub fn ignores(&self, name: &str) -> bool {
        self.ignores.iter().any(|ignored| ignored == name)
    }

    /// Returns this answer on a server that answers like `server`: with its
    /// headers, and disregarding what it disregards.
    #[must_use]
    pub fn on(&self, server: &Self) -> Self {
        let mut answer = self.clone();
        for (name, value) in &server.headers {
            let known = answer
                .headers
                .keys()
                .any(|own| own.eq_ignore_ascii_case(name));
            // A failure has no file to describe.
            if !known && self.status.is_none_or(|status| status < 300) {
                answer.headers.insert(name.clone(), value.clone());
            }
        }
        answer.ignores.extend(server.ignores.iter().cloned());
        answer
    }

    /// Returns whether this answer differs from the right one to a request for
    /// `range` of a file of `total` bytes. Beyond its end there is nothing to send.
    #[must_use]
    pub fn is_noticed_in(&self, range: Option<&Range<usize>>, total: usize) -> bool {
        self.sends.end <= 0 || range.is_some_and(|range| range.end < total)
    }
}
