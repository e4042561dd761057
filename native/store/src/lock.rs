//! A lock that lets only one process use the local files of an address.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

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
