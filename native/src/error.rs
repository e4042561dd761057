//! The error type.

use std::path::Path;

use crate::display::Shown;

/// The result of every fallible operation in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate. The displayed message hides the secrets in addresses,
/// including addresses within texts from servers and libraries.
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
    /// Bytes in memory are refused; no file is involved.
    #[error(transparent)]
    Core(#[from] zstn_core::Error),
    /// An operating system call failed.
    #[error("{}", Shown(format_args!("cannot {action}: {source}")))]
    Io {
        /// The attempted action, with the file's name.
        action: String,
        /// The error that the system reported.
        source: std::io::Error,
    },
    /// A server did not answer with the requested bytes.
    #[error("{}", Shown(format_args!("{url}: {detail}")))]
    Http {
        /// The requested address.
        url: String,
        /// The problem, and what to do.
        detail: String,
        /// The HTTP status of the answer, if the status is the problem.
        status: Option<u16>,
    },
    /// A file, local or on a server, has changed since it was opened. No result
    /// combines bytes of both versions.
    #[error("{}", Shown(format_args!("{name}: the file has changed since it was opened{detail}; open it again")))]
    Changed {
        /// Path or address of the file.
        name: String,
        /// The evidence, beginning with a comma, or nothing.
        detail: String,
    },
    /// Two files that should be equal are not.
    #[error("{}", Shown(detail))]
    Differs {
        /// Describes the first difference.
        detail: String,
    },
    /// The output exists and may not be replaced.
    #[error("{}", Shown(format_args!("{} exists already{detail}", path.display())))]
    Exists {
        /// Path or address of the output.
        path: std::path::PathBuf,
        /// The fate of the finished result, beginning with a colon, or nothing.
        detail: String,
    },
    /// A delta cannot be read without its base.
    #[error("{}", Shown(format_args!("{name} is a delta from another checkpoint{detail}; give that checkpoint as its base")))]
    NeedsBase {
        /// Path or address of the delta.
        name: String,
        /// The tensor that needs the base, beginning with a comma, or nothing.
        detail: String,
    },
    /// A hub refuses a request.
    #[error(transparent)]
    Hub(Box<dyn std::error::Error + Send + Sync>),
    /// The caller's progress callback has ended the work
    /// ([`Progress::check`](crate::Progress::check)).
    #[error("the work was cancelled")]
    Cancelled,
    /// The arguments are invalid or contradict each other.
    #[error("{}", Shown(_0))]
    Usage(String),
}

impl Error {
    /// Returns an I/O error that occurred during `action`, a verb phrase.
    pub fn io(action: impl Into<String>, source: std::io::Error) -> Self {
        Self::Io {
            action: action.into(),
            source,
        }
    }

    /// Returns whether the same work may succeed when it is tried again, because
    /// nothing is wrong with the input.
    #[doc(hidden)]
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Http { .. } | Self::Io { .. } | Self::Cancelled)
    }

    pub(crate) fn exists(path: impl Into<std::path::PathBuf>) -> Self {
        Self::Exists {
            path: path.into(),
            detail: String::new(),
        }
    }

    pub(crate) fn needs_base(name: impl std::fmt::Display) -> Self {
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

    /// Returns a function that attributes a core error to the file `place`.
    #[doc(hidden)]
    pub fn place(place: impl std::fmt::Display) -> impl Fn(zstn_core::Error) -> Self {
        let place = place.to_string();
        move |source| Self::Format {
            place: place.clone(),
            source,
        }
    }

    /// Attributes a core error to the file `place`. Any other error already names its
    /// file.
    pub(crate) fn placed(self, place: impl std::fmt::Display) -> Self {
        match self {
            Self::Core(source) => Self::place(place)(source),
            other => other,
        }
    }

    /// Returns a short name for the type of error, for programs: `"io"`, `"http"`,
    /// `"changed"`, `"differs"`, `"exists"`, `"needs_base"`, `"hub"`, `"cancelled"`,
    /// `"usage"`, or the code of the core error ([`zstn_core::Error::code`]).
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

    /// Returns the core error that caused this one, if there is one.
    #[must_use]
    pub fn refusal(&self) -> Option<&zstn_core::Error> {
        match self {
            Self::Format { source, .. } | Self::Core(source) => Some(source),
            _ => None,
        }
    }
}
