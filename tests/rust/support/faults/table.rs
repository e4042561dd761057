//! Data types for `tests/faults/server.json`: the cases, their answers, and their
//! expected outcomes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::moments;
use crate::repository;

/// The parsed `server.json`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Remarks for people who read the JSON file.
    #[serde(rename = "about")]
    _about: serde_json::Value,
    /// Defines the outcomes that the cases refer to by name.
    pub outcomes: BTreeMap<String, Outcome>,
    /// The cases, which have distinct names.
    pub cases: Vec<Case>,
}

/// An expected outcome.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcome {
    /// The version whose bytes are read, `model` or `other`; `None` if an error is
    /// expected.
    pub bytes: Option<String>,
    /// The expected error of the native library.
    pub native: Option<Failure>,
    /// The expected error of the npm package.
    pub npm: Option<Failure>,
    /// The expected number of requests.
    pub tries: Option<Tries>,
}

/// An expected error.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Failure {
    /// The value of `zstn::Error::code`, or `code` of the JavaScript error.
    pub code: String,
    /// Text that the error message must contain.
    #[serde(default)]
    pub says: String,
    /// True if the error must report the HTTP status of the answer.
    #[serde(default)]
    pub has_status: bool,
}

/// The number of requests for the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tries {
    /// The client does not retry after the first fault.
    One,
    /// The client retries until it reaches its limit.
    All,
    /// The client sends one extra request per fault.
    OneMore,
}

/// A fault, or sequence of faults, and its expected outcomes.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Description of the fault; unique in the table.
    pub name: String,
    /// How the server answers requests without a fault.
    #[serde(default)]
    pub server: Answer,
    /// The faulty answers in order. If there are none, `server` itself is the fault.
    #[serde(default)]
    pub faults: Vec<Answer>,
    /// The answer to `HEAD` requests, if it differs.
    pub head: Option<Answer>,
    /// The answer to requests without `Range`, if it differs.
    pub whole: Option<Answer>,
    /// True if the case ends only by a timeout.
    #[serde(default)]
    pub stalls: bool,
    /// The file formats to run the case with; all by default.
    #[serde(default = "all_kinds")]
    pub kinds: Vec<Kind>,
    /// The `If-Range` value of all requests after the first; an empty string if they
    /// must not have one.
    pub if_range: Option<String>,
    /// The outcome of each cell. A key matches a cell if all of its words belong to the
    /// cell, and the matching key with the most words applies. Cells without a matching
    /// key are not run.
    pub outcome: BTreeMap<String, Choice>,
}

fn all_kinds() -> Vec<Kind> {
    vec![Kind::Safetensors, Kind::Zstn]
}

/// The name of an outcome, or one name for each suite.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Choice {
    /// Both suites expect the same outcome.
    Same(String),
    /// The suites expect different outcomes.
    Differs {
        /// Outcome of the native library.
        native: Option<String>,
        /// Outcome of the npm package.
        npm: Option<String>,
        /// Why the outcomes differ; must not be empty.
        why: String,
    },
}

/// File formats that a fault server serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A plain safetensors checkpoint.
    Safetensors,
    /// The checkpoint packed as `.zstn`.
    Zstn,
}

impl Table {
    /// Parses and checks `tests/faults/server.json`.
    ///
    /// # Panics
    /// If the file does not match these types or is inconsistent.
    #[must_use]
    pub fn load() -> Self {
        let path = repository().join("tests/faults/server.json");
        let text = std::fs::read_to_string(&path).expect("tests/faults/server.json");
        let table: Self = serde_json::from_str(&text).expect("tests/faults/server.json");
        table.check();
        table
    }

    /// Returns the case called `name`.
    #[must_use]
    pub fn case(&self, name: &str) -> Option<&Case> {
        self.cases.iter().find(|case| case.name == name)
    }

    fn check(&self) {
        let mut names = BTreeSet::new();
        let mut outcomes = BTreeSet::new();
        for case in &self.cases {
            assert!(names.insert(&case.name), "two cases are {:?}", case.name);
            for (key, choice) in &case.outcome {
                let (named, why) = match choice {
                    Choice::Same(name) => (vec![name], ""),
                    Choice::Differs { native, npm, why } => {
                        assert!(!why.is_empty(), "{}, {key}: why?", case.name);
                        assert!(native != npm, "{}, {key}: {why}", case.name);
                        (native.iter().chain(npm).collect(), &**why)
                    }
                };
                for name in named {
                    outcomes.insert(name);
                    let known = self.outcomes.contains_key(name);
                    assert!(known, "{}, {key} {why}: {name:?}?", case.name);
                }
                let is_used = moments(case)
                    .any(|moment| case.key_for(moment).is_some_and(|best| best == key));
                assert!(is_used, "{}: no cell is {key:?}", case.name);
            }
        }
        for name in self.outcomes.keys() {
            assert!(outcomes.contains(name), "no case has the outcome {name:?}");
        }
    }
}

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
