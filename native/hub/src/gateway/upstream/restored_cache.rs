//! A cache of restored files on disk.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tempfile::TempDir;

use zstn::{Error, Result};

/// A restored file. It is removed from disk once neither the cache nor any reader holds
/// it.
pub(super) type Restored = Arc<RestoredFile>;

#[derive(Debug)]
pub(super) struct RestoredFile {
    path: PathBuf,
    len_bytes: u64,
}

impl RestoredFile {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for RestoredFile {
    fn drop(&mut self) {
        // If this fails, the file is removed with the temporary folder.
        let _ = fs::remove_file(&self.path);
    }
}

/// A least-recently-used cache of restored files; the most recently used is last.
#[derive(Debug)]
pub(super) struct RestoredFiles {
    folder: TempDir,
    max_bytes: u64,
    /// The number of files that were begun. Each has a name of its own, because a file that is
    /// restored again may still be held.
    begun: AtomicU64,
    kept: Mutex<Vec<(String, Restored)>>,
    /// One lock per key that is being restored.
    locks: Mutex<HashMap<String, Arc<Mutex<()>>>>,
}

impl RestoredFiles {
    pub(super) fn new(max_bytes: u64) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("zstn-gateway-").tempdir();
        Ok(Self {
            folder: folder.map_err(|error| Error::io("make a temporary folder", error))?,
            max_bytes,
            begun: AtomicU64::new(0),
            kept: Mutex::default(),
            locks: Mutex::default(),
        })
    }

    /// Returns the file of a key. If it is missing, `restore` writes it to the given
    /// path. Concurrent callers with the same key wait for the first one.
    pub(super) fn get(
        &self,
        key: &str,
        restore: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<Restored> {
        if let Some(file) = self.find(key) {
            return Ok(file);
        }
        let lock = {
            let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(locks.entry(key.into()).or_default())
        };
        let restored = {
            let _guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
            match self.find(key) {
                Some(file) => Ok(file),
                None => self.make(key, restore),
            }
        };
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        // The lock is held by the map and this call alone, so no other call waits for
        // it.
        if Arc::strong_count(&lock) == 2 {
            locks.remove(key);
        }
        restored
    }

    fn make(&self, key: &str, restore: impl FnOnce(&Path) -> Result<()>) -> Result<Restored> {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let path = self
            .folder
            .path()
            .join(format!("{key}-{number}.safetensors"));
        let mut file = RestoredFile { path, len_bytes: 0 };
        restore(&file.path)?;
        let metadata = fs::metadata(&file.path).map_err(Error::file("open", &file.path))?;
        file.len_bytes = metadata.len();
        let file = Arc::new(file);
        self.keep(key, &file);
        Ok(file)
    }

    fn find(&self, key: &str) -> Option<Restored> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept.iter().position(|(other, _)| other == key)?;
        let found = kept.remove(place);
        let file = Arc::clone(&found.1);
        kept.push(found);
        Some(file)
    }

    fn keep(&self, key: &str, file: &Restored) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push((key.into(), Arc::clone(file)));
        let mut total: u64 = kept.iter().map(|(_, file)| file.len_bytes).sum();
        while total > self.max_bytes && kept.len() > 1 {
            total -= kept.remove(0).1.len_bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(files: &RestoredFiles, key: &str, made: &mut u32) -> Restored {
        let restore = |path: &Path| {
            *made += 1;
            fs::write(path, [0; 10]).map_err(Error::file("write", path))
        };
        files.get(key, restore).unwrap()
    }

    #[test]
    fn files_are_made_once_and_the_oldest_go() {
        let files = RestoredFiles::new(25).unwrap();
        let mut made = 0;
        let first = get(&files, "a", &mut made);
        get(&files, "b", &mut made);
        get(&files, "a", &mut made);
        assert_eq!(made, 2);
        let second = get(&files, "b", &mut made).path().to_owned();
        get(&files, "a", &mut made);
        get(&files, "c", &mut made);
        // `b` is the least recently used; `a` is still held.
        assert!(!second.exists() && first.path().exists());
        get(&files, "b", &mut made);
        get(&files, "d", &mut made);
        assert_eq!(made, 5);
        // A file that the cache has dropped exists as long as it is held.
        assert!(first.path().exists());
        let path = first.path().to_owned();
        drop(first);
        assert!(!path.exists());
        assert!(files.locks.lock().unwrap().is_empty());
    }

    #[test]
    fn a_file_that_is_made_again_outlives_its_earlier_copy() {
        let files = RestoredFiles::new(15).unwrap();
        let mut made = 0;
        let held = get(&files, "a", &mut made);
        get(&files, "b", &mut made);
        let again = get(&files, "a", &mut made);
        assert_eq!(made, 3);
        drop(held);
        assert!(again.path().exists());
        assert!(get(&files, "a", &mut made).path().exists());
        assert_eq!(made, 3);
    }

    #[test]
    fn what_fails_is_tried_again() {
        let files = RestoredFiles::new(25).unwrap();
        let failed = files.get("a", |_| Err(Error::Usage("no".into())));
        assert!(failed.is_err());
        let mut made = 0;
        get(&files, "a", &mut made);
        assert_eq!(made, 1);
    }
}
