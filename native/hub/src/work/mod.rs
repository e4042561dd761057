//! The work on one row of a plan: its file is read, packed, verified by restoring it,
//! and stored, and the result is recorded. `zstn worker` and the job of the Python
//! package (`python -m zstn_hub`) share this code, so either can continue where the
//! other was stopped.

use std::io::ErrorKind;

use crate::hub::Refusal;
use crate::manifest::Class;
use zstn::Error;

mod packer;
mod row_work;
mod store;

pub use packer::WorkerOptions;
#[cfg(feature = "worker")]
pub(crate) use packer::{Packed, Packer};
pub use row_work::{Origin, RowOutcome, RowWork, copy_sha256, list_objects, stream_sha256};

/// The reason why a file or a job was not completed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The worker was stopped.
    #[cfg(feature = "worker")]
    Stopped,
    /// The file cannot be packed, or would not get smaller.
    File(String),
    /// Any other error.
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

/// Returns whether an error is caused by the file's content or name, so that a retry
/// would fail again.
fn is_about_file(error: &Error) -> bool {
    match error {
        Error::Format { .. } | Error::Core(_) => true,
        // Packing the same bytes again would give the same result.
        Error::Differs { .. } => true,
        // An example is a name that is invalid in an address.
        Error::Usage(_) => true,
        _ => false,
    }
}

/// Returns whether another attempt may succeed after this error.
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
