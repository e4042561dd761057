//! The error type.

use std::io;

use zstn_net::cause::BoxedError;

/// The result of a fallible operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate. Messages contain addresses, never credentials.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The scheme is not the scheme of an object store.
    #[error(
        "`{scheme}` is not the scheme of an object store; use s3, s3a, gs, az, abfs, abfss or memory"
    )]
    Scheme {
        /// The scheme of the address.
        scheme: String,
    },
    /// The address is malformed.
    #[error("{url}: {detail}")]
    Address {
        /// The address.
        url: String,
        /// The problem, and what to do.
        detail: String,
    },
    /// Environment variables contradict each other or cannot be parsed.
    #[error("{url}: {detail}")]
    Environment {
        /// The address of the store.
        url: String,
        /// The problem, and what to do.
        detail: String,
    },
    /// No credentials were found.
    #[error("{url}: there are no credentials for this store; set {variables}")]
    NoCredentials {
        /// The address.
        url: String,
        /// The environment variables to set.
        variables: &'static str,
    },
    /// The object does not exist.
    #[error("{url}: there is no such object; check the address")]
    NotFound {
        /// The address of the object.
        url: String,
    },
    /// The bucket or container does not exist.
    #[error(
        "{url}: there is no bucket or container `{container}`; check its name, the endpoint and the account"
    )]
    NoContainer {
        /// The address.
        url: String,
        /// The bucket or container.
        container: String,
    },
    /// The store refuses the request (status 401 or 403).
    #[error("{url}: access is denied{detail}; check the credentials and what they permit")]
    Denied {
        /// The address.
        url: String,
        /// The store's error code in parentheses, or an empty string.
        detail: String,
    },
    /// The bucket is in another region.
    #[error("{url}: the bucket is in another region{}; set AWS_REGION to it", region.as_ref().map_or(String::new(), |region| format!(", {region}")))]
    WrongRegion {
        /// The address.
        url: String,
        /// The correct region, if the store reports it.
        region: Option<String>,
    },
    /// The object has changed since it was opened.
    #[error("{url}: the object has changed since it was opened{detail}; open it again")]
    Changed {
        /// The address.
        url: String,
        /// The observed difference, beginning with a comma, or an empty string.
        detail: String,
    },
    /// The object exists and may not be replaced.
    #[error("{url} already exists{}", if *lost_race { ": another writer created it during this upload, which is discarded" } else { "" })]
    Exists {
        /// The address.
        url: String,
        /// True if the object did not exist when the upload began.
        lost_race: bool,
    },
    /// The folder to be written is not empty.
    #[error(
        "{url}: the folder is not empty, it has `{found}`; name another folder or remove its objects"
    )]
    NotEmpty {
        /// The address of the folder.
        url: String,
        /// One of its objects, relative to the folder.
        found: String,
    },
    /// Another attempt has claimed the folder.
    #[error(
        "{url}: another attempt is writing to this folder, or was interrupted on another machine; if none is running, remove the folder's objects"
    )]
    Claimed {
        /// The address of the folder.
        url: String,
    },
    /// The object is longer than expected.
    #[error("{url}: {detail}")]
    TooLong {
        /// The address.
        url: String,
        /// The lengths, and what to do.
        detail: String,
    },
    /// The range is not inside the object.
    #[error("{url}: bytes {start}..{end} are not inside the object of {len_bytes} bytes")]
    Range {
        /// The address.
        url: String,
        /// The first byte of the range.
        start: u64,
        /// The byte after the last byte of the range.
        end: u64,
        /// Length of the object in bytes.
        len_bytes: u64,
    },
    /// The store cannot be reached or does not answer, even after retries.
    #[error(
        "{url}: the store cannot be reached: {detail}; check the endpoint and the network, then try again"
    )]
    Network {
        /// The address.
        url: String,
        /// The reason.
        detail: String,
        /// The error of the HTTP library, if there is one.
        source: Option<BoxedError>,
    },
    /// The store answered with an error, or with a response that cannot be used.
    #[error("{url}: the store answered {detail}")]
    Server {
        /// The address.
        url: String,
        /// Status of the response, if that is the problem.
        status: Option<u16>,
        /// The response, and what to do if that is known.
        detail: String,
        /// The error of the library that made the request, if there is one.
        source: Option<BoxedError>,
    },
    /// The store does not support creating an object only if it does not exist.
    #[error(
        "{url}: the store does not support conditional writes, which keep an upload from replacing \
         an object by accident; set AWS_CONDITIONAL_PUT=disabled to upload without this \
         protection, or allow replacing the object (--force)"
    )]
    NoConditions {
        /// The address.
        url: String,
        /// Status of the response.
        status: Option<u16>,
    },
    /// Another process uploads to the same address.
    #[error("{url}: another process is uploading to this address; wait until it ends")]
    Busy {
        /// The address.
        url: String,
    },
    /// The store has lost parts of an unfinished upload.
    #[error(
        "{url}: the store no longer has the parts of this upload; upload it again, from the beginning"
    )]
    PartsLost {
        /// The address.
        url: String,
    },
    /// The upload was used after an earlier call had failed.
    #[error("{url}: this upload has already failed; begin it again to continue")]
    Failed {
        /// The address.
        url: String,
    },
    /// An operating system call failed.
    #[error("cannot {action}: {source}")]
    Io {
        /// The attempted action.
        action: String,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::NotFound { .. } | Error::NoContainer { .. } => io::ErrorKind::NotFound,
            Error::Denied { .. } | Error::NoCredentials { .. } => io::ErrorKind::PermissionDenied,
            Error::Exists { .. } => io::ErrorKind::AlreadyExists,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
