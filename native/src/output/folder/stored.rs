//! Folders in object stores.

use std::io::Read;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use zstn_store::{Address, FolderClaim};

use crate::source::{HttpOptions, store};
use crate::{Output, Result};

/// Objects whose names begin alike. A claim keeps other writers away; dropped, it
/// stays with the objects, for another attempt to continue.
pub(crate) struct StoredFolder {
    url: String,
    http: HttpOptions,
    claim: FolderClaim,
    /// The objects that have been begun.
    written: Mutex<Vec<Address>>,
}

impl StoredFolder {
    /// Claims the folder at `url`, which has to be empty, or to hold what an
    /// attempt of this user on this machine has left.
    pub(super) fn create(url: &str, http: &HttpOptions) -> Result<Self> {
        let url = url.trim_end_matches('/');
        let state = zstn_store::default_journal_folder();
        let address = store::address(url)?;
        let claim = FolderClaim::take(&address, state.as_deref(), &store::options(http))?;
        Ok(Self {
            url: url.into(),
            http: http.clone(),
            claim,
            written: Mutex::default(),
        })
    }

    /// Refuses a folder that cannot be claimed. One that is empty stays so.
    pub(super) fn check(url: &str, http: &HttpOptions) -> Result<()> {
        let folder = Self::create(url, http)?;
        match folder.claim.is_continued() {
            true => Ok(()),
            false => folder.finish(),
        }
    }

    /// Begins the file at `path`. It replaces only what the attempt before has
    /// left: nobody else's objects are in the folder, or appear there unnoticed.
    pub(super) fn file(&self, path: &Path) -> Result<Output<'static>> {
        let url = format!("{}/{}", self.url, key(path));
        let output = Output::to_url(&url, self.claim.is_continued(), &self.http)?;
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.push(store::address(&url)?);
        Ok(output)
    }

    pub(super) fn write(&self, path: &Path, mut from: impl Read) -> Result<()> {
        let mut output = self.file(path)?;
        output.copy(&mut from)?;
        output.finish()
    }

    /// Gives up the claim on the complete folder.
    pub(super) fn finish(self) -> Result<()> {
        Ok(self.claim.release()?)
    }

    /// Deletes what was written, as far as that is possible.
    pub(super) fn discard(self) {
        let written = self.written.into_inner();
        let written = written.unwrap_or_else(PoisonError::into_inner);
        // The error that led here is the one to tell. What cannot be deleted has
        // no index, and is left to another attempt.
        let _ = self.claim.discard(&written);
    }
}

/// The name of an object for a path in the folder.
fn key(path: &Path) -> String {
    let parts = path
        .components()
        .map(|part| part.as_os_str().to_string_lossy());
    parts.collect::<Vec<_>>().join("/")
}
