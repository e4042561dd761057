//! Causes of errors, without the secrets that the messages of other libraries may
//! contain.

use std::error::Error;
use std::{fmt, io};

use crate::shown;

/// The type of [`Error::source`] in errors of zstn.
pub type BoxedError = Box<dyn Error + Send + Sync>;

/// A copy of another library's error. HTTP libraries put complete URLs in their
/// messages, and some services put a signature in the URL; here, these URLs appear as
/// [`shown::text`] shows them.
#[derive(Debug)]
struct Cause {
    message: String,
    source: Option<BoxedError>,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Cause {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&**self.source.as_ref()?)
    }
}

/// Returns a copy of an error and of its sources in which the secrets of URLs are
/// hidden. The copy of an [`io::Error`] is an [`io::Error`] of the same kind and with
/// the same number of the operating system; the other types are lost, so that they are
/// not part of the API.
///
/// ```
/// use std::io;
///
/// let reset = io::Error::from_raw_os_error(104);
/// let failed = io::Error::other("no answer from https://h/m?signature=0a1b");
/// let cause = zstn_net::cause::of(&failed);
/// assert_eq!(cause.to_string(), "no answer from https://h/m?…");
/// let cause = zstn_net::cause::of(&reset);
/// let cause: &io::Error = cause.downcast_ref().unwrap();
/// assert_eq!(cause.raw_os_error(), Some(104));
/// ```
#[must_use]
pub fn of(error: &(dyn Error + 'static)) -> BoxedError {
    let cause = Cause {
        message: shown::text(&error.to_string()).into_owned(),
        source: error.source().map(of),
    };
    let Some(error) = error.downcast_ref::<io::Error>() else {
        return Box::new(cause);
    };
    Box::new(match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), cause),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_is_copied_without_secrets() {
        let innermost = io::Error::new(io::ErrorKind::TimedOut, "at http://u:p@h/a");
        let outer = Cause {
            message: "for https://h/m?sig=1".into(),
            source: Some(Box::new(innermost)),
        };
        let copy = of(&outer);
        assert_eq!(copy.to_string(), "for https://h/m?…");
        let source = copy.source().expect("a source");
        assert_eq!(source.to_string(), "at http://h/a");
        let source: &io::Error = source.downcast_ref().expect("an I/O error");
        assert_eq!(source.kind(), io::ErrorKind::TimedOut);
        assert!(source.source().is_none());
    }
}
