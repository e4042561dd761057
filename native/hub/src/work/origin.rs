//! Where the originals of a plan are.

use std::path::Path;

use crate::hub::{Hub, Repository};
use crate::manifest::Row;
use crate::proof;
use zstn::source::HttpOptions;
use zstn::{Location, Result};

/// The place of the originals of a plan.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The folder with `OWNER/NAME/PATH`; `None` for a hub.
    folder: Option<Location>,
    http: HttpOptions,
}

impl Origin {
    /// Returns a hub, which is read at the revisions of the rows.
    ///
    /// # Errors
    /// An endpoint that requests cannot be made to.
    pub fn hub(hub: &Hub) -> Result<Self> {
        Ok(Self {
            folder: None,
            http: hub.http()?,
        })
    }

    /// Returns a folder, local or in an object store, with the files of the
    /// repositories: `OWNER/NAME/PATH`. It has no revisions.
    #[must_use]
    pub fn folder(root: impl Into<Location>) -> Self {
        Self {
            folder: Some(root.into()),
            http: HttpOptions::default(),
        }
    }

    pub(super) fn http(&self) -> &HttpOptions {
        &self.http
    }

    /// Returns the location of the file of a row.
    pub(super) fn location(&self, row: &Row) -> Result<Location> {
        Ok(match &self.folder {
            None => {
                let repository: Repository = row.repo.parse()?;
                Location::url(repository.file_url(&row.revision, &row.path))
            }
            Some(Location::Url(url)) => {
                let folder = url.trim_end_matches('/');
                Location::url(format!("{folder}/{}/{}", row.repo, row.path))
            }
            Some(Location::Path(path)) => Location::Path(path.join(&row.repo).join(&row.path)),
            Some(other @ (Location::Pipe(_) | Location::Stdin)) => other.clone(),
        })
    }
}

/// Returns the objects below the folder of an object store at `url`: their names
/// relative to it, lengths and entity tags.
///
/// # Errors
/// Those of requests.
pub fn list_objects(url: &str) -> Result<Vec<(String, u64, Option<String>)>> {
    let listed = zstn::internals::store::list(url, &HttpOptions::default())?;
    let object = |object: zstn_store::ListedObject| (object.path, object.len_bytes, object.tag);
    Ok(listed.into_iter().map(object).collect())
}

/// Reads a file from its start to its end. Returns its length and its SHA-256 in
/// lower-case hex.
///
/// # Errors
/// A file that cannot be read, or that changed meanwhile.
pub fn stream_sha256(location: &Location, http: &HttpOptions) -> Result<(u64, String)> {
    proof::stream(location, http, |_| Ok(()))
}

/// Copies a file to `path`, which must not exist. Returns its length and its SHA-256 in
/// lower-case hex.
///
/// # Errors
/// A file that cannot be read, or that changed meanwhile; [`Error::Exists`]; I/O errors.
///
/// [`Error::Exists`]: zstn::Error::Exists
pub fn copy_sha256(location: &Location, path: &Path, http: &HttpOptions) -> Result<(u64, String)> {
    proof::copy(location, http, path)
}
