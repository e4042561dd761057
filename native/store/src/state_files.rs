//! The local state files, which let a later run continue: their names, their
//! errors, and the lock that lets only one process use the files of an address.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

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

/// An exclusive lock on a file. Dropping it removes the file. If the process is killed,
/// the operating system releases the lock.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    /// Takes the lock. Returns `None` if another process holds it.
    pub(crate) fn take(path: &Path) -> io::Result<Option<Self>> {
        loop {
            let Some(file) = open_locked(path)? else {
                return Ok(None);
            };
            // The previous owner may have removed the file between `open_locked`'s
            // opening and locking it. Another process would then lock a new file at the
            // same path.
            if is_at(&file, path) {
                return Ok(Some(Self {
                    path: path.into(),
                    _file: file,
                }));
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The file is removed while it is still locked. If it remains, the next process
        // locks it.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(unix)]
fn open_locked(path: &Path) -> io::Result<Option<File>> {
    use rustix::fs::{FlockOperation, flock};
    let file = options().open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(windows)]
fn open_locked(path: &Path) -> io::Result<Option<File>> {
    use std::os::windows::fs::OpenOptionsExt;
    const SHARING_VIOLATION: i32 = 32;
    match options().share_mode(0).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.raw_os_error() == Some(SHARING_VIOLATION) => Ok(None),
        Err(error) => Err(error),
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true);
    options
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let (Ok(ours), Ok(there)) = (file.metadata(), fs::metadata(path)) else {
        return false;
    };
    ours.dev() == there.dev() && ours.ino() == there.ino()
}

#[cfg(windows)]
fn is_at(_: &File, _: &Path) -> bool {
    // While the file is open without sharing, no other process can open or remove it.
    true
}
