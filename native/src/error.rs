//! The error type.

use std::io;
use std::path::Path;

use zstn_net::cause::{self, BoxedError};

use crate::display::Shown;
use crate::tensor::CastError;
use crate::{Location, output};

/// The result of every fallible operation in this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate.
///
/// The message states what happened, where, and what to do; it includes the messages of
/// the [sources](std::error::Error::source), so it is enough to print the error itself.
/// It hides the secrets in addresses, including addresses within texts from servers and
/// libraries, and so do the sources.
///
/// ```
/// use zstn::{Error, Reader};
///
/// match Reader::open("missing.zstn") {
///     Ok(reader) => println!("{} tensors", reader.tensors().len()),
///     Err(error) if error.is_retryable() => println!("try again later: {error}"),
///     Err(Error::Io { source, .. }) => assert_eq!(source.kind(), std::io::ErrorKind::NotFound),
///     Err(error) => println!("{}: {error}", error.code()),
/// }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file is refused.
    #[error("{}", Shown(format_args!("{place}: {source}")))]
    Format {
        /// Path or address of the file.
        place: String,
        /// The reason why the file is refused.
        source: zstn_core::Error,
    },
    /// Bytes in memory are refused; no file is involved.
    #[error(transparent)]
    Core(#[from] zstn_core::Error),
    /// An action failed with an I/O error, from the operating system or from a source or
    /// an output that the caller implements.
    #[error("{}", Shown(format_args!("cannot {action}: {source}")))]
    Io {
        /// The attempted action, with the file's name.
        action: String,
        /// The underlying error.
        source: io::Error,
    },
    /// A server did not answer with the requested bytes. [`Error::http`] and
    /// [`Error::unanswered`] create this error.
    #[error("{}", Shown(format_args!("{url}: {detail}")))]
    #[non_exhaustive]
    Http {
        /// The requested address, without secrets.
        url: String,
        /// The problem, and what to do.
        detail: String,
        /// The HTTP status of the answer, if the status is the problem.
        status: Option<u16>,
        /// True if the same request may succeed later ([`Error::is_retryable`]).
        retryable: bool,
        /// The error of the HTTP library, if there is one.
        source: Option<BoxedError>,
    },
    /// A file, local or on a server, has changed since it was opened. No result
    /// combines bytes of both versions.
    #[error("{}", Shown(format_args!("{name}: the file has changed since it was opened{detail}; open it again")))]
    Changed {
        /// Path or address of the file.
        name: String,
        /// The evidence of the change: text that begins with a comma, or an empty text.
        detail: String,
    },
    /// Two files that should be equal are not.
    #[error("{}", Shown(detail))]
    Differs {
        /// Describes the first difference.
        detail: String,
    },
    /// The output exists and may not be replaced.
    #[error("{}", Shown(format_args!("{location} already exists{detail}")))]
    #[non_exhaustive]
    Exists {
        /// The path or address of the output.
        location: Location,
        /// What happened to the finished result: text that begins with a colon, or an
        /// empty text.
        detail: String,
    },
    /// A delta cannot be read without its base.
    #[error("{}", Shown(format_args!("{name} is a delta from another checkpoint{detail}; give that checkpoint as its base")))]
    #[non_exhaustive]
    NeedsBase {
        /// Path or address of the delta.
        name: String,
        /// The tensor that needs the base: text that begins with a comma, or an empty
        /// text.
        detail: String,
    },
    /// A hub refuses a request.
    #[error(transparent)]
    Hub(BoxedError),
    /// A tensor cannot be read as elements of the requested Rust type.
    #[error(transparent)]
    Cast(#[from] CastError),
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
    pub fn io(action: impl Into<String>, source: io::Error) -> Self {
        Self::Io {
            action: action.into(),
            source,
        }
    }

    /// Returns the [`Error::Http`] for a response of the server at `url` that cannot be
    /// used. `detail` states the problem and what to do. `status` is the status of the
    /// response if it is the problem; it determines whether the error is retryable.
    pub fn http(url: &str, detail: impl Into<String>, status: Option<u16>) -> Self {
        Self::Http {
            url: crate::display::address(url).into_owned(),
            detail: zstn_net::shown::text(&detail.into()).into_owned(),
            status,
            retryable: status.is_some_and(is_retryable_status),
            source: None,
        }
    }

    /// Returns the [`Error::Http`] for a request to `url` without a complete response:
    /// the connection could not be made, broke or stalled. Such an error is retryable.
    pub fn unanswered(url: &str, detail: impl Into<String>) -> Self {
        Self::Http {
            url: crate::display::address(url).into_owned(),
            detail: zstn_net::shown::text(&detail.into()).into_owned(),
            status: None,
            retryable: true,
            source: None,
        }
    }

    /// Makes `cause` the source of an [`Error::Http`]; other errors do not change. The
    /// source is a copy in which the secrets of addresses are hidden. Only the copy of
    /// an [`io::Error`] has the type of the original.
    #[must_use]
    pub fn caused_by(self, cause: &(dyn std::error::Error + 'static)) -> Self {
        self.with_source(Some(cause::of(cause)))
    }

    /// Makes `copy`, in which the secrets of addresses are hidden, the source of an
    /// [`Error::Http`].
    #[doc(hidden)]
    #[must_use]
    pub fn with_source(mut self, copy: Option<BoxedError>) -> Self {
        if let Self::Http { source, .. } = &mut self {
            *source = copy;
        }
        self
    }

    /// Returns whether the same operation may succeed if it is tried again later,
    /// because the error was caused by the network, by a busy server or by an
    /// interrupted system call. Requests to servers have already been retried within
    /// the limits of [`HttpOptions`](crate::source::HttpOptions).
    ///
    /// After [`Error::Changed`], repeating a read fails again; opening the file again
    /// may help. That error is therefore not retryable.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Http { retryable, .. } => *retryable,
            Self::Io { source, .. } => is_retryable_io(source.kind()),
            _ => false,
        }
    }

    /// Returns whether the error was caused by the network, the machine or the caller,
    /// and proves nothing about the content of the files.
    #[doc(hidden)]
    #[must_use]
    pub fn is_external(&self) -> bool {
        matches!(self, Self::Http { .. } | Self::Io { .. } | Self::Cancelled)
    }

    pub(crate) fn exists(location: impl Into<Location>) -> Self {
        Self::Exists {
            location: location.into(),
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
    pub fn file(action: &str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let action = format!("{action} {}", output::shown(path).display());
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
            Self::Cast(_) | Self::Usage(_) => "usage",
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

/// Returns whether a server that responds with `status` may respond differently later.
pub(crate) fn is_retryable_status(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..=599) && !matches!(status, 501 | 505)
}

/// Returns whether an I/O error of this kind may pass by itself: a failure of the
/// network, a busy resource or an interrupted call.
fn is_retryable_io(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{
        ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable, Interrupted,
        NetworkDown, NetworkUnreachable, ResourceBusy, StaleNetworkFileHandle, TimedOut,
        WouldBlock,
    };
    matches!(
        kind,
        ConnectionAborted
            | ConnectionRefused
            | ConnectionReset
            | HostUnreachable
            | Interrupted
            | NetworkDown
            | NetworkUnreachable
            | ResourceBusy
            | StaleNetworkFileHandle
            | TimedOut
            | WouldBlock
    )
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn retryable_statuses() {
        for status in [408, 429, 500, 502, 503, 504, 599] {
            assert!(is_retryable_status(status), "{status}");
        }
        for status in [200, 400, 401, 403, 404, 410, 412, 416, 501, 505] {
            assert!(!is_retryable_status(status), "{status}");
        }
    }

    #[test]
    fn only_errors_that_pass_by_themselves_are_retryable() {
        let missing = io::Error::from(io::ErrorKind::NotFound);
        for (error, expected) in [
            (Error::http("http://h/x", "busy", Some(503)), true),
            (Error::http("http://h/x", "missing", Some(404)), false),
            (Error::http("http://h/x", "no length", None), false),
            (Error::unanswered("http://h/x", "reset"), true),
            (Error::io("read x", missing), false),
            (Error::io("read x", io::ErrorKind::TimedOut.into()), true),
            (Error::Cancelled, false),
            (Error::Usage(String::new()), false),
        ] {
            assert_eq!(error.is_retryable(), expected, "{error}");
        }
    }

    #[test]
    fn sources_are_kept_and_secrets_are_not() {
        let url = "https://h/x?sig=1";
        let cause = io::Error::other(format!("cannot connect to {url}"));
        let error = Error::unanswered(url, format!("no answer ({cause})")).caused_by(&cause);
        let message = "https://h/x?…: no answer (cannot connect to https://h/x?…)";
        assert_eq!(error.to_string(), message);
        let source = error.source().expect("a source");
        assert_eq!(source.to_string(), "cannot connect to https://h/x?…");
        assert!(source.is::<io::Error>());
        assert!(!format!("{error:?}").contains("sig"), "{error:?}");

        let error = Error::exists(Location::url(url));
        assert_eq!(error.to_string(), "https://h/x?… already exists");
        let core = Error::place("model.zstn")(zstn_core::Error::not_found("x"));
        assert!(
            core.source()
                .is_some_and(|source| source.is::<zstn_core::Error>())
        );
    }
}
