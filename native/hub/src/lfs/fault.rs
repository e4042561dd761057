//! Errors of restoring a stored object.

use std::io::ErrorKind;

use zstn_core::ErrorKind as RefusalKind;

use super::oid::Oid;
use zstn::{Error, Location};

/// The reason why a stored object cannot be restored. Only some of the reasons justify
/// deleting the object.
#[derive(Debug)]
pub(super) enum Fault {
    /// No object exists at the location.
    Missing,
    /// The length differs from the one in the pointer.
    Length(String),
    /// The restored bytes have another SHA-256, which is given.
    Digest(Oid),
    /// Another error, possibly of this machine.
    Other(Error),
}

impl Fault {
    /// Classifies an error of opening or reading an object. Use it only for those: a
    /// file that is missing during another step does not mean that the object is
    /// missing.
    pub(super) fn of_reading(error: Error) -> Self {
        let is_missing = match &error {
            Error::Io { source, .. } => source.kind() == ErrorKind::NotFound,
            Error::Http { status, .. } => matches!(status, Some(404 | 410)),
            _ => false,
        };
        match is_missing {
            true => Self::Missing,
            false => Self::Other(error),
        }
    }

    /// Returns an error that states what to do. `size` is the length in the pointer, in
    /// bytes.
    pub(super) fn describe(self, location: &Location, oid: &Oid, size: u64) -> Error {
        let push = format!(
            "delete it, and push the object from a clone that has it (git lfs push --object-id \
             REMOTE {oid})"
        );
        let damaged = |reason: &str| Error::Differs {
            detail: format!("{location} is damaged: {reason}; {push}"),
        };
        let error = match self {
            Self::Missing => {
                let detail = "the object is not there; push it from a clone that has it (git lfs \
                              push --all REMOTE)";
                return Error::http(&location.to_string(), detail, Some(404));
            }
            Self::Length(reason) => {
                return Error::Differs {
                    detail: format!(
                        "{location} does not match its pointer, which names {size} bytes: \
                         {reason}; compare the size in the pointer with that of the file in a \
                         clone that \
                         has it. If the pointer is right, the object is damaged: {push}"
                    ),
                };
            }
            Self::Digest(found) => return damaged(&format!("its bytes have the SHA-256 {found}")),
            Self::Other(error) => error,
        };
        let reason = error.to_string();
        let name = format!("{location}: ");
        let reason = reason.strip_prefix(&name).unwrap_or(&reason);
        match &error {
            Error::Io { .. } | Error::Http { .. } => error,
            Error::Format { source, .. } | Error::Core(source)
                if source.kind() == RefusalKind::Malformed =>
            {
                damaged(reason)
            }
            _ => Error::Differs {
                detail: format!("{location} cannot be restored: {reason}"),
            },
        }
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}
