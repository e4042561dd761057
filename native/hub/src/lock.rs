//! File locks that the system releases when the process ends, however it ends.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use zstn::{Error, Result};

/// An exclusive lock on a file, which is not removed afterwards. The system releases
/// the lock when the process ends, even if it is killed.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock. Returns `None` if another process or handle holds it.
    pub(crate) fn take(path: &Path) -> Result<Option<Self>> {
        let taken = open_locked(path).map_err(Error::file("lock", path))?;
        Ok(taken.map(|file| Self { _file: file }))
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

#[cfg(not(unix))]
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
