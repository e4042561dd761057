//! Output folders, on disk and in object stores.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::{Mode, Output};
#[cfg(feature = "store")]
use crate::source::is_store;
use crate::source::{HttpOptions, Location};
use crate::{Error, Result};
use local::LocalFolder;
#[cfg(feature = "store")]
use stored::StoredFolder;

mod local;
#[cfg(feature = "store")]
mod stored;

/// The location of an output folder.
#[derive(Debug)]
pub(crate) enum FolderPlace {
    Path(PathBuf),
    Url(String),
}

/// A folder that is being written. On disk it appears under its final name when it is
/// complete. In an object store its files appear one by one; the index, by which
/// readers find the shards, is written last.
pub(crate) enum OutputFolder {
    Local(LocalFolder),
    #[cfg(feature = "store")]
    Stored(Box<StoredFolder>),
}

impl OutputFolder {
    /// Begins the folder at `place`, which must be missing or empty: other folders are
    /// never replaced. In an object store it may contain the objects of an earlier,
    /// interrupted attempt.
    pub(crate) fn create(place: &FolderPlace, http: &HttpOptions) -> Result<Self> {
        match place {
            FolderPlace::Path(target) => LocalFolder::create(target).map(Self::Local),
            #[cfg(feature = "store")]
            FolderPlace::Url(url) if is_store(url) => {
                let folder = StoredFolder::create(url, http)?;
                Ok(Self::Stored(Box::new(folder)))
            }
            FolderPlace::Url(url) => {
                let _ = http;
                Err(not_a_folder(url))
            }
        }
    }

    /// Refuses an address to which no folder can be written, before there is anything
    /// to write.
    pub(crate) fn check(url: &str, http: &HttpOptions) -> Result<()> {
        #[cfg(feature = "store")]
        if is_store(url) {
            return StoredFolder::check(url, http);
        }
        let _ = http;
        Err(not_a_folder(url))
    }

    /// Begins the file at `path` inside the folder.
    pub(crate) fn file(&self, path: &Path) -> Result<Output<'static>> {
        match self {
            Self::Local(folder) => folder.file(path),
            #[cfg(feature = "store")]
            Self::Stored(folder) => folder.file(path),
        }
    }

    /// Gives the folder the permissions of the input folder at `location`, if both are
    /// on disk.
    pub(crate) fn like(&mut self, location: &Location) {
        match (self, location) {
            (Self::Local(folder), Location::Path(path)) if path.is_dir() => folder.like(path),
            _ => {}
        }
    }

    /// Creates the subfolder at `path` with these permissions; its parent must exist.
    pub(crate) fn make(&self, path: &Path, mode: &Mode) -> Result<()> {
        match self {
            Self::Local(folder) => folder.make(path, mode),
            // An object store has no folders, only object names with slashes.
            #[cfg(feature = "store")]
            Self::Stored(_) => Ok(()),
        }
    }

    /// Writes the bytes of `from` to a new file at `path` with these permissions.
    pub(crate) fn write(&self, path: impl AsRef<Path>, from: impl Read, mode: &Mode) -> Result<()> {
        match self {
            Self::Local(folder) => folder.write(path.as_ref(), from, mode),
            #[cfg(feature = "store")]
            Self::Stored(folder) => folder.write(path.as_ref(), from),
        }
    }

    /// Abandons the folder because of `error`, which it returns. In an object store the
    /// files stay for another attempt, unless that would fail for the same reason.
    fn give_up(self, error: Error) -> Error {
        match self {
            #[cfg(feature = "store")]
            Self::Stored(folder) if !error.is_external() => folder.discard(),
            _ => {}
        }
        error
    }

    /// Completes the folder if `written` is `Ok`, and abandons it otherwise.
    pub(crate) fn end<T>(self, written: Result<T>) -> Result<T> {
        match written {
            Ok(result) => self.finish().map(|()| result),
            Err(error) => Err(self.give_up(error)),
        }
    }

    /// Makes the folder durable and gives it its final name.
    pub(crate) fn finish(self) -> Result<()> {
        match self {
            Self::Local(folder) => folder.finish(),
            #[cfg(feature = "store")]
            Self::Stored(folder) => folder.finish(),
        }
    }
}

fn not_a_folder(url: &str) -> Error {
    Error::Usage(format!(
        "{url}: the result is a folder of files; name a local one, or one in an object store"
    ))
}
