//! Output folders in object stores.

use std::io::Read;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use zstn_store::{Address, FolderClaim};

use crate::source::{HttpOptions, store};
use crate::{Output, Result};

/// Objects with a common name prefix. A claim keeps other writers away. If the folder
/// is dropped, the claim stays with the objects, so that another attempt can continue.
pub(crate) struct StoredFolder {
    url: String,
    http: HttpOptions,
    claim: FolderClaim,
    /// The objects that were begun.
    written: Mutex<Vec<Address>>,
}

impl StoredFolder {
    /// Claims the folder at `url`, which must be empty or contain only the objects of
    /// an earlier attempt by this user on this machine.
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

    /// Refuses a folder that cannot be claimed. An empty folder is left empty.
    pub(super) fn check(url: &str, http: &HttpOptions) -> Result<()> {
        let folder = Self::create(url, http)?;
        match folder.claim.is_continued() {
            true => Ok(()),
            false => folder.finish(),
        }
    }

    /// Begins the file at `path`. It only replaces an object if this attempt continues
    /// an earlier one: the folder contains no objects of other writers, and none can
    /// appear there unnoticed.
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

    /// Releases the claim on the complete folder.
    pub(super) fn finish(self) -> Result<()> {
        Ok(self.claim.release()?)
    }

    /// Deletes the objects that were written, as far as possible.
    pub(super) fn discard(self) {
        let written = self.written.into_inner();
        let written = written.unwrap_or_else(PoisonError::into_inner);
        // The caller reports the error that led to this call. Objects that cannot be
        // deleted have no index, and another attempt can remove them.
        let _ = self.claim.discard(&written);
    }
}

/// Returns the object name, relative to the folder, for a path.
fn key(path: &Path) -> String {
    let parts = path
        .components()
        .map(|part| part.as_os_str().to_string_lossy());
    parts.collect::<Vec<_>>().join("/")
}
