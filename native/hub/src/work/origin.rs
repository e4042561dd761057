//! The original files of a plan.

use std::path::Path;

use crate::hub::{Hub, Repository};
use crate::manifest::Row;
use crate::proof;
use zstn::source::HttpOptions;
use zstn::{Location, Result};

/// The location of a plan's original files.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The folder with `OWNER/NAME/PATH`, or `None` for a hub.
    folder: Option<Location>,
    http: HttpOptions,
}

impl Origin {
    /// Returns the origin for a hub. Each file is read at the revision of its row.
    ///
    /// # Errors
    /// If no requests can be made to the hub's endpoint.
    pub fn hub(hub: &Hub) -> Result<Self> {
        Ok(Self {
            folder: None,
            http: hub.http()?,
        })
    }

    /// Returns the origin for a local or object-store folder that contains the files as
    /// `OWNER/NAME/PATH`. The revisions of rows are ignored.
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

    /// Returns the location of a row's file.
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

/// Lists the objects below the object-store folder `url`: their names relative to it,
/// lengths in bytes, and ETags.
///
/// # Errors
/// The errors of the requests.
pub fn list_objects(url: &str) -> Result<Vec<(String, u64, Option<String>)>> {
    let listed = zstn::internals::store::list(url, &HttpOptions::default())?;
    let object = |object: zstn_store::ListedObject| (object.path, object.len_bytes, object.tag);
    Ok(listed.into_iter().map(object).collect())
}

/// Reads a whole file. Returns its length in bytes and its SHA-256 in lower-case hex.
///
/// # Errors
/// If the file cannot be read or changes meanwhile.
pub fn stream_sha256(location: &Location, http: &HttpOptions) -> Result<(u64, String)> {
    proof::stream(location, http, |_| Ok(()))
}

/// Copies a file to `path`, which must not exist. Returns its length in bytes and its
/// SHA-256 in lower-case hex.
///
/// # Errors
/// If the file cannot be read or changes meanwhile; [`Error::Exists`]; I/O errors.
///
/// [`Error::Exists`]: zstn::Error::Exists
pub fn copy_sha256(location: &Location, path: &Path, http: &HttpOptions) -> Result<(u64, String)> {
    proof::copy(location, http, path)
}
