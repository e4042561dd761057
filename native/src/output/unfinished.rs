//! What lies on disk under a hidden name, for a program that has to stop.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static PATHS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Remembers a path for as long as it is not finished.
#[derive(Debug)]
pub(super) struct Unfinished(PathBuf);

impl Unfinished {
    pub(super) fn new(path: &Path) -> Self {
        let mut paths = PATHS.lock().unwrap_or_else(PoisonError::into_inner);
        paths.insert(path.into());
        Self(path.into())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let mut paths = PATHS.lock().unwrap_or_else(PoisonError::into_inner);
        paths.remove(&self.0);
    }
}

/// Removes every output of this process that is not finished: for the handler
/// of a signal, just before it ends the process. What is finished meanwhile
/// stays; work that goes on will fail.
pub fn remove_unfinished() {
    let paths = PATHS.lock().unwrap_or_else(PoisonError::into_inner);
    for path in paths.iter() {
        if fs::remove_file(path).is_ok() {
            continue;
        }
        // Another thread may put a file into a folder while it is emptied.
        for _ in 0..10 {
            if fs::remove_dir_all(path).is_ok() || !path.exists() {
                break;
            }
        }
    }
}
