//! Log entries.

use std::fmt::{Display, Formatter, Result};
use std::path::PathBuf;

use axum::http::header;
use axum::http::request::Parts;

use zstn::display::{escaped, size};

/// A request that has been answered. Its `Display` form is a line for a log.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Served {
    /// The request's method.
    pub method: String,
    /// The request's path, still percent-encoded.
    pub path: String,
    /// The value of the `Range` header, if any.
    pub range: Option<String>,
    /// The status of the answer.
    pub status: u16,
    /// The length of the answer's body, in bytes.
    pub body_bytes: u64,
    /// The reason for a refusal that the operator of the server should know.
    pub note: Option<Note>,
}

/// The reason why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note {
    /// The request names this host, which
    /// [`Server::with_host`](super::Server::with_host) can add.
    #[non_exhaustive]
    UnknownHost {
        /// The requested host.
        name: String,
    },
    /// The file is a link out of the served folder;
    /// [`Server::with_links_in`](super::Server::with_links_in) follows it.
    #[non_exhaustive]
    LinkOutside {
        /// The real path of the link's target.
        target: PathBuf,
        /// The folder of the target.
        folder: PathBuf,
    },
    /// The request comes from a page of another origin, which
    /// [`Server::with_origin`](super::Server::with_origin) can allow.
    #[non_exhaustive]
    ForeignOrigin {
        /// The page's origin.
        origin: String,
    },
    /// The request is malformed.
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
            Self::UnknownHost { name } => {
                write!(out, "this server does not accept the host name {name}")
            }
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
