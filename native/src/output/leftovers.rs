//! Removes hidden files and folders that killed runs have left in a folder when the
//! next run writes into it.
//!
//! A process locks each hidden file while it works on it, so a free lock shows that the
//! process has ended. On some network file systems, other machines do not see the lock.
//! The name therefore contains a tag of the machine, and the leftovers of another
//! machine are removed only after a day.

#[cfg(unix)]
use std::collections::HashSet;
#[cfg(unix)]
use std::fs::OpenOptions;
use std::fs::{self, File};
use std::io;
use std::path::Path;
#[cfg(unix)]
use std::path::PathBuf;
use std::sync::OnceLock;
#[cfg(unix)]
use std::sync::{Mutex, PoisonError};
#[cfg(unix)]
use std::time::Duration;

use tempfile::{Builder, NamedTempFile, TempDir};

use super::hidden::PART_SUFFIX;

/// The age at which the leftovers of another machine are removed.
#[cfg(unix)]
const ABANDONED: Duration = Duration::from_secs(24 * 60 * 60);

/// How often creating a hidden file is tried. An attempt fails if another process
/// removes the file before it is locked.
const ATTEMPTS: usize = 10;

/// The maximum number of folders that are remembered as swept.
#[cfg(unix)]
const MAX_SWEPT: usize = 1000;

/// A hidden folder with its lock.
#[derive(Debug)]
pub(super) struct HiddenFolder {
    folder: TempDir,
    #[cfg(unix)]
    _lock: Option<File>,
}

impl HiddenFolder {
    /// Wraps a folder that does not need a lock, because its name is not that of a
    /// leftover.
    pub(super) fn unlocked(folder: TempDir) -> Self {
        Self {
            folder,
            #[cfg(unix)]
            _lock: None,
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Keeps the folder on disk when this handle is dropped.
    pub(super) fn keep(self) {
        let _ = self.folder.keep();
    }
}

/// Creates and locks a hidden file in `folder`, and removes the leftovers of killed
/// runs there.
pub(super) fn create_file(folder: &Path, builder: &mut Builder) -> io::Result<NamedTempFile> {
    sweep(folder);
    builder.suffix(suffix());
    for _ in 1..ATTEMPTS {
        let file = builder.tempfile_in(folder)?;
        if lock(file.as_file()) && is_there(file.path()) {
            return Ok(file);
        }
    }
    builder.tempfile_in(folder)
}

/// Creates a hidden folder in `parent`, like [`create_file`].
pub(super) fn create_folder(parent: &Path, builder: &mut Builder) -> io::Result<HiddenFolder> {
    sweep(parent);
    builder.suffix(suffix());
    #[cfg(unix)]
    for _ in 1..ATTEMPTS {
        let folder = builder.tempdir_in(parent)?;
        let file = File::open(folder.path()).ok();
        if file.as_ref().is_none_or(lock) && is_there(folder.path()) {
            return Ok(HiddenFolder {
                folder,
                _lock: file,
            });
        }
    }
    Ok(HiddenFolder {
        folder: builder.tempdir_in(parent)?,
        #[cfg(unix)]
        _lock: None,
    })
}

/// Locks a hidden file until it is closed. Returns `false` if another process has the
/// lock; that process is about to remove the file. Returns `true` on a file system
/// without locks, where no process removes leftovers.
fn lock(file: &File) -> bool {
    #[cfg(unix)]
    {
        use rustix::fs::{FlockOperation, flock};
        use rustix::io::Errno;
        let locked = flock(file, FlockOperation::NonBlockingLockExclusive);
        !matches!(locked, Err(Errno::WOULDBLOCK))
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        true
    }
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Returns the suffix of all hidden names, including the tag of this machine.
fn suffix() -> &'static str {
    static SUFFIX: OnceLock<String> = OnceLock::new();
    SUFFIX.get_or_init(|| {
        let host = fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
        let digest = zstn_core::digest::of_pieces([&host[..]]);
        let tag = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
        format!(".{tag:08x}{PART_SUFFIX}")
    })
}

/// Removes the leftovers of killed runs in `folder`, once per process. Entries that
/// cannot be removed are left for another run.
fn sweep(folder: &Path) {
    #[cfg(unix)]
    {
        static SWEPT: Mutex<Option<HashSet<PathBuf>>> = Mutex::new(None);
        let mut swept = SWEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let swept = swept.get_or_insert_default();
        if swept.len() >= MAX_SWEPT {
            swept.clear();
        }
        if !swept.insert(folder.into()) {
            return;
        }
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_str().filter(|name| name.starts_with('.'));
            if name.is_some_and(|name| name.ends_with(PART_SUFFIX)) {
                let _ = remove(&entry.path(), name.unwrap_or_default());
            }
        }
    }
    #[cfg(not(unix))]
    let _ = folder;
}

/// Removes a hidden file or folder whose process has ended.
#[cfg(unix)]
fn remove(path: &Path, name: &str) -> io::Result<()> {
    use rustix::fs::{FlockOperation, OFlags, flock};
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

    let found = path.symlink_metadata()?;
    let is_ours = name.ends_with(suffix());
    let is_old = || found.modified()?.elapsed().map_err(io::Error::other);
    if !is_ours && is_old()? < ABANDONED {
        return Ok(());
    }
    let mut options = OpenOptions::new();
    options.read(true).write(found.is_file());
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options
        .custom_flags(i32::try_from(flags.bits()).unwrap_or_default())
        .open(path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    // The name may meanwhile belong to another file.
    let locked = file.metadata()?;
    let same = path.symlink_metadata()?;
    if (locked.dev(), locked.ino()) != (same.dev(), same.ino()) {
        return Ok(());
    }
    match (found.is_file(), found.is_dir()) {
        (true, _) => fs::remove_file(path),
        (_, true) => fs::remove_dir_all(path),
        _ => Ok(()),
    }
}
