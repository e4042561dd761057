//! The error type.

use std::path::Path;

use crate::display::Shown;

/// Result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate. What it displays hides the secrets of addresses, also
/// of those in texts of servers and libraries.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file is refused.
    #[error("{}", Shown(format_args!("{place}: {source}")))]
    Format {
        /// Path or address of the file.
        place: String,
        /// The reason.
        source: zstn_core::Error,
    },
    /// Bytes are refused, and no file is involved.
    #[error(transparent)]
    Core(#[from] zstn_core::Error),
    /// An operation of the system failed.
    #[error("{}", Shown(format_args!("cannot {action}: {source}")))]
    Io {
        /// The attempted action, with the file's name.
        action: String,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A server answered with something else than the bytes asked for.
    #[error("{}", Shown(format_args!("{url}: {detail}")))]
    Http {
        /// Address asked.
        url: String,
        /// The problem, and what to do.
        detail: String,
        /// Status of the answer, if that is the problem.
        status: Option<u16>,
    },
    /// A file, local or on a server, has changed since it was opened. No result
    /// is made from bytes of both versions.
    #[error("{}", Shown(format_args!("{name}: the file has changed since it was opened{detail}; open it again")))]
    Changed {
        /// Path or address.
        name: String,
        /// The evidence, beginning with a comma, or nothing.
        detail: String,
    },
    /// Two files that should be equal are not.
    #[error("{}", Shown(detail))]
    Differs {
        /// The first difference.
        detail: String,
    },
    /// The output exists and may not be replaced.
    #[error("{}", Shown(format_args!("{} exists already{detail}", path.display())))]
    Exists {
        /// Its path or address.
        path: std::path::PathBuf,
        /// What became of the result, beginning with a colon, or nothing.
        detail: String,
    },
    /// A delta cannot be read without its base.
    #[error("{}", Shown(format_args!("{name} is a difference from another checkpoint{detail}; give that one as its base")))]
    NeedsBase {
        /// Path or address of the delta.
        name: String,
        /// The tensor that needs the base, beginning with a comma, or nothing.
        detail: String,
    },
    /// A hub refuses a request.
    #[error(transparent)]
    Hub(Box<dyn std::error::Error + Send + Sync>),
    /// Whoever watches the work has ended it ([`Progress::check`](crate::Progress::check)).
    #[error("the work was cancelled")]
    Cancelled,
    /// The arguments do not make sense.
    #[error("{}", Shown(_0))]
    Usage(String),
}

impl Error {
    /// Returns an I/O error while doing `action`, a verb phrase.
    pub fn io(action: impl Into<String>, source: std::io::Error) -> Self {
        Self::Io {
            action: action.into(),
            source,
        }
    }

    /// Returns whether the same work may succeed at another time: nothing is wrong
    /// with the input.
    #[doc(hidden)]
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Http { .. } | Self::Io { .. } | Self::Cancelled)
    }

    #[doc(hidden)]
    pub fn exists(path: impl Into<std::path::PathBuf>) -> Self {
        Self::Exists {
            path: path.into(),
            detail: String::new(),
        }
    }

    #[doc(hidden)]
    pub fn needs_base(name: impl std::fmt::Display) -> Self {
        Self::NeedsBase {
            name: name.to_string(),
            detail: String::new(),
        }
    }

    #[doc(hidden)]
    pub fn file(action: &str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let action = format!("{action} {}", crate::output::shown(path).display());
        move |source| Self::Io { action, source }
    }

    /// Names the file a refusal of the core is about.
    #[doc(hidden)]
    pub fn place(place: impl std::fmt::Display) -> impl Fn(zstn_core::Error) -> Self {
        let place = place.to_string();
        move |source| Self::Format {
            place: place.clone(),
            source,
        }
    }

    /// Names the file that a refusal of the core is about; any other error names its
    /// file already.
    #[doc(hidden)]
    pub fn placed(self, place: impl std::fmt::Display) -> Self {
        match self {
            Self::Core(source) => Self::place(place)(source),
            other => other,
        }
    }

    /// Returns a short name for the kind of error, for programs: `"io"`,
    /// `"http"`, `"changed"`, `"differs"`, `"exists"`, `"needs_base"`, `"hub"`,
    /// `"cancelled"`, `"usage"`, or that of the refusal ([`zstn_core::Error::code`]).
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Format { source, .. } | Self::Core(source) => source.code(),
            Self::Io { .. } => "io",
            Self::Http { .. } => "http",
            Self::Changed { .. } => "changed",
            Self::Differs { .. } => "differs",
            Self::Exists { .. } => "exists",
            Self::NeedsBase { .. } => "needs_base",
            Self::Hub(_) => "hub",
            Self::Cancelled => "cancelled",
            Self::Usage(_) => "usage",
        }
    }

    /// Returns the refusal of the core behind this error, if there is one.
    #[must_use]
    pub fn refusal(&self) -> Option<&zstn_core::Error> {
        match self {
            Self::Format { source, .. } | Self::Core(source) => Some(source),
            _ => None,
        }
    }
}
