//! The local files from which a later run continues.

use std::io;

use crate::address::Service;
use crate::{Address, Environment};

/// Returns the address together with the server, which is not a part of it.
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

/// Returns the name, without an extension, of the files for `target`.
pub(crate) fn file_stem(target: &str) -> String {
    blake3::hash(target.as_bytes()).to_hex()[..32].to_owned()
}

/// Returns whether files cannot be kept in a folder: it may not be written, its
/// file system has no locks, or something on the way to it is no folder.
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
