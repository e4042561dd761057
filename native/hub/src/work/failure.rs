//! The consequence of an error for a job.

use std::io::ErrorKind;

use crate::hub::Refusal;
use crate::manifest::Class;
use zstn::Error;

/// The reason why a file or a job was not done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The worker is to end.
    #[cfg(feature = "worker")]
    Stopped,
    /// The file cannot be packed, or not to advantage.
    File(String),
    /// Anything else.
    Error(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match is_about_file(&error) {
            true => Self::File(error.to_string()),
            false => Self::Error(error),
        }
    }
}

/// Returns whether the bytes of a file are the reason for an error.
fn is_about_file(error: &Error) -> bool {
    match error {
        Error::Format { .. } | Error::Core(_) => true,
        // The same bytes would restore the same ones.
        Error::Differs { .. } => true,
        // Such as a name that no address can have.
        Error::Usage(_) => true,
        _ => false,
    }
}

/// Returns whether the same work may succeed at another time.
pub(crate) fn class(error: &Error) -> Class {
    match error {
        Error::Changed { .. } => Class::Retry,
        Error::Hub(_) => match Refusal::in_error(error) {
            Some(Refusal::ParentMoved { .. }) => Class::Retry,
            _ => Class::Refused,
        },
        Error::Http {
            status: Some(400..=407 | 409..=428 | 430..=499),
            ..
        } => Class::Refused,
        Error::Http { .. } => Class::Retry,
        Error::Io { source, .. } if source.kind() == ErrorKind::PermissionDenied => Class::Refused,
        Error::Io { .. } => Class::Retry,
        _ => Class::Refused,
    }
}
