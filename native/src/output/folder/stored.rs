//! Folders in object stores.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::Contents;
use crate::source::{HttpOptions, store};
use crate::{Error, Output, Result};

/// Objects whose names begin alike. Dropped before [`StoredFolder::finish`], those
/// that were written are deleted again.
pub(crate) struct StoredFolder {
    url: String,
    indices: Vec<PathBuf>,
    http: HttpOptions,
    /// Addresses of the objects that may have been written.
    written: Mutex<Vec<String>>,
}

impl StoredFolder {
    pub(super) fn create(url: &str, contents: &Contents, http: &HttpOptions) -> Result<Self> {
        let indices: BTreeSet<String> = contents.indices.iter().map(|p| key(p)).collect();
        let others: BTreeSet<String> = contents.others.iter().map(|p| key(p)).collect();
        // Without an index nobody can tell a complete folder from what an
        // attempt has left.
        let is_left_over = |path: &String| !indices.is_empty() && others.contains(path);
        let listed = store::list(url, http)?;
        if let Some(found) = listed.iter().find(|object| !is_left_over(&object.path)) {
            return Err(Error::Usage(format!(
                "{url} is not empty, it holds {}, and a folder is never replaced; choose another \
                 name, or remove it first",
                found.path
            )));
        }
        Ok(Self {
            url: url.trim_end_matches('/').into(),
            indices: contents.indices.clone(),
            http: http.clone(),
            written: Mutex::default(),
        })
    }

    pub(super) fn file(&self, path: &Path) -> Result<Output<'static>> {
        let url = format!("{}/{}", self.url, key(path));
        // An index that has appeared is that of somebody else.
        let replace = !self.indices.iter().any(|index| index == path);
        let output = Output::to_url(&url, replace, &self.http)?;
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.push(url);
        Ok(output)
    }

    pub(super) fn write(&self, path: &Path, mut from: impl Read) -> Result<()> {
        let mut output = self.file(path)?;
        let mut bytes = Vec::new();
        let read = from.read_to_end(&mut bytes);
        read.map_err(|error| Error::io(format!("read what becomes {}", path.display()), error))?;
        output.write(&bytes)?;
        match output.finish() {
            Err(error @ Error::Exists { .. }) => {
                // What is there now belongs to the other writer.
                let written = self.written.lock();
                written.unwrap_or_else(PoisonError::into_inner).clear();
                Err(error)
            }
            result => result,
        }
    }

    pub(super) fn finish(mut self) -> Result<()> {
        let written = self.written.get_mut();
        written.unwrap_or_else(PoisonError::into_inner).clear();
        Ok(())
    }
}

impl Drop for StoredFolder {
    fn drop(&mut self) {
        let written = self.written.get_mut();
        for url in written.unwrap_or_else(PoisonError::into_inner) {
            // The error that led here is the one to tell; what cannot be deleted
            // stays without an index and is replaced by the next attempt.
            let _ = store::delete(url, &self.http);
        }
    }
}

/// The name of an object for a path in the folder.
fn key(path: &Path) -> String {
    let parts = path
        .components()
        .map(|part| part.as_os_str().to_string_lossy());
    parts.collect::<Vec<_>>().join("/")
}
