//! Names and errors of the local state files, which let a later run continue.

use std::io;

use crate::address::Service;
use crate::{Address, Environment};

/// Returns the address together with its server, which the address itself does not
/// contain.
pub(crate) fn target(address: &Address, environment: &Environment) -> String {
    let server = environment.first(match address.service() {
        Service::S3 => &["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"],
        Service::Azure => &[
            "AZURE_STORAGE_ENDPOINT",
            "AZURE_ENDPOINT",
            "AZURE_STORAGE_ACCOUNT_NAME",
        ],
        _ => &["GOOGLE_BASE_URL"],
    });
    let url = address.url();
    server.map_or_else(|| url.clone(), |server| format!("{url} at {server}"))
}

/// Returns the file name without extension of the state files for `target`.
pub(crate) fn file_stem(target: &str) -> String {
    blake3::hash(target.as_bytes()).to_hex()[..32].to_owned()
}

/// Returns whether the error means that a folder cannot contain state files: it is not
/// writable, its file system has no locks, or a component of its path is not a folder.
pub(crate) fn is_unwritable(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    let kinds = [
        NotADirectory,
        PermissionDenied,
        ReadOnlyFilesystem,
        Unsupported,
    ];
    kinds.contains(&error.kind()) || has_no_locks(error)
}

#[cfg(unix)]
fn has_no_locks(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let codes = [Errno::NOTSUP, Errno::OPNOTSUPP, Errno::NOSYS, Errno::NOLCK];
    Errno::from_io_error(error).is_some_and(|code| codes.contains(&code))
}

#[cfg(not(unix))]
fn has_no_locks(_: &io::Error) -> bool {
    false
}
