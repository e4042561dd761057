//! A line of the log.

use std::fmt::{Display, Formatter, Result};
use std::path::PathBuf;

use axum::http::header;
use axum::http::request::Parts;

use zstn::display::{escaped, size};

/// One request, after it was answered. It displays as a line of a log.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Served {
    /// Method.
    pub method: String,
    /// Path as asked for.
    pub path: String,
    /// `Range` header, if any.
    pub range: Option<String>,
    /// Status of the answer.
    pub status: u16,
    /// Bytes of its body.
    pub body_bytes: u64,
    /// Why it was refused, where the operator of the server can change that.
    pub note: Option<Note>,
}

/// Why a request was refused that the server could be set up to answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// The request names this host, which
    /// [`Server::with_host`](super::Server::with_host) can add.
    #[non_exhaustive]
    UnknownHost {
        /// The name.
        name: String,
    },
    /// The file is a link out of the served folder;
    /// [`Server::with_links_in`](super::Server::with_links_in) follows it.
    #[non_exhaustive]
    LinkOutside {
        /// Where it leads.
        target: PathBuf,
        /// The folder of that.
        folder: PathBuf,
    },
    /// The page that asks is of another origin, which
    /// [`Server::with_origin`](super::Server::with_origin) can allow.
    #[non_exhaustive]
    ForeignOrigin {
        /// The origin.
        origin: String,
    },
    /// The request makes no sense.
    Malformed(String),
}

impl Note {
    /// Notes that a page of another origin may not read the answer.
    #[doc(hidden)]
    #[must_use]
    pub fn foreign_origin(origin: String) -> Self {
        Self::ForeignOrigin { origin }
    }
}

impl Served {
    /// Describes the answer to a request, for a log.
    #[doc(hidden)]
    #[must_use]
    pub fn new(request: &Parts, status: u16, body_bytes: u64, note: Option<Note>) -> Self {
        let range = request.headers.get(header::RANGE);
        Self {
            method: request.method.to_string(),
            path: request.uri.path().into(),
            range: range.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()),
            status,
            body_bytes,
            note,
        }
    }
}

impl Display for Note {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        match self {
            Self::UnknownHost { name } => write!(out, "this server does not go by the name {name}"),
            Self::LinkOutside { target, .. } => {
                write!(
                    out,
                    "a link out of the served folder, to {}",
                    target.display()
                )
            }
            Self::ForeignOrigin { origin } => write!(out, "pages of {origin} may not read this"),
            Self::Malformed(sentence) => out.write_str(sentence),
        }
    }
}

impl Display for Served {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        let size = size(self.body_bytes);
        let path = escaped(&self.path);
        write!(out, "{} {:<4} {size:>8}  {path}", self.status, self.method)?;
        if let Some(range) = &self.range {
            write!(out, " {}", escaped(range))?;
        }
        if let Some(note) = &self.note {
            write!(out, "  ({})", escaped(&note.to_string()))?;
        }
        Ok(())
    }
}
