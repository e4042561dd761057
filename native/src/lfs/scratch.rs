//! Files in the making.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::repository::Repository;
use crate::lock::Lock;
use crate::{Error, Result};

const PREFIX: &str = "unfinished-";

/// The name of the file in a folder that its process locks.
const LOCK: &str = "lock";

/// The age from which a folder that nobody has locked counts as left by a process
/// that was killed.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// A folder for files in the making. It is removed when this is dropped.
///
/// In a repository it is next to git-lfs's objects, so that a file is renamed to
/// its place without a copy, but not in git-lfs's own folder for temporary files:
/// every git-lfs command may remove what it does not know there.
pub(super) struct Scratch {
    /// Keeps other processes from removing the folder, however long this one works;
    /// `None` in a file system without locks. It is dropped first, since an open
    /// file cannot be removed everywhere.
    _lock: Option<Lock>,
    folder: TempDir,
}

impl Scratch {
    /// Makes the folder, and removes old ones that killed processes have left.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn create(repository: Option<&Repository>) -> Result<Self> {
        let parent = match repository {
            Some(repository) => repository.own_folder()?,
            None => std::env::temp_dir(),
        };
        let fail = || Error::file("create a folder in", &parent);
        fs::create_dir_all(&parent).map_err(|error| fail()(error))?;
        if repository.is_some() {
            remove_abandoned(&parent);
        }
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&parent);
        let folder = folder.map_err(fail())?;
        Ok(Self {
            _lock: Lock::take(&folder.path().join(LOCK)).ok().flatten(),
            folder,
        })
    }

    /// Returns the path of a file in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Creates a file in it, which may exist.
    pub(super) fn file(&self, name: &str) -> Result<(File, PathBuf)> {
        let path = self.path(name);
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        let file = options.open(&path).map_err(Error::file("create", &path))?;
        Ok((file, path))
    }

    /// Removes a file in it, if it is there.
    pub(super) fn remove(&self, name: &str) {
        // Otherwise it goes with the folder.
        let _ = fs::remove_file(self.path(name));
    }
}

fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let is_own = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified
            .ok()
            .and_then(|modified| SystemTime::now().duration_since(modified).ok());
        if is_own && age.is_some_and(|age| age > ABANDONED_AFTER) {
            // A lock that cannot be tested may still be held.
            if let Ok(Some(lock)) = Lock::take(&entry.path().join(LOCK)) {
                drop(lock);
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}
