//! Folders for temporary files.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::lock::Lock;
use zstn::internals::Staging;
use zstn::{Error, Result};

/// The temporary folder of one process, removed when this is dropped. The folder of a
/// killed process is removed by the next process that starts.
#[derive(Debug)]
pub(crate) struct Workspace {
    folder: Staging,
    _lock: Lock,
}

impl Workspace {
    /// Creates a folder in `folder`, and removes the folders of processes that have
    /// ended.
    pub(crate) fn new(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).map_err(Error::file("make the folder", folder))?;
        // A new folder has no lock until `Lock::take` below, so only one process at a
        // time may create or remove folders.
        let guard_path = folder.join("lock");
        let _guard = loop {
            match Lock::take(&guard_path)? {
                Some(guard) => break guard,
                None => thread::sleep(Duration::from_millis(20)),
            }
        };
        let entries = fs::read_dir(folder).map_err(Error::file("read the folder", folder))?;
        for entry in entries.filter_map(std::result::Result::ok) {
            let path = entry.path();
            if path.is_dir() && matches!(Lock::take(&path.join("lock")), Ok(Some(_))) {
                let _ = fs::remove_dir_all(&path);
            }
        }
        let own = Staging::inside(folder, "worker-");
        let own = own.map_err(Error::file("make a folder in", folder))?;
        let lock_path = own.path("lock");
        let lock = Lock::take(&lock_path)?.ok_or_else(|| {
            let error = std::io::Error::other("another process has locked it");
            Error::file("lock", &lock_path)(error)
        })?;
        Ok(Self {
            folder: own,
            _lock: lock,
        })
    }

    /// Returns the path of a file in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path(name)
    }
}
