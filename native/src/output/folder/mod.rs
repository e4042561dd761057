//! Folders of results.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::Output;
use crate::source::HttpOptions;
use crate::{Error, Result};
use local::LocalFolder;
#[cfg(feature = "store")]
use stored::StoredFolder;

mod local;
#[cfg(feature = "store")]
mod stored;

/// The place of a folder.
#[derive(Debug)]
pub(crate) enum FolderPlace {
    Path(PathBuf),
    Url(String),
}

/// The files that a folder is to hold, by their paths in it.
#[derive(Debug, Default)]
#[cfg_attr(not(feature = "store"), expect(dead_code))] // nobody looks before a folder is there
pub(crate) struct Contents {
    /// Those that make it complete: its indices.
    pub(crate) indices: Vec<PathBuf>,
    pub(crate) others: Vec<PathBuf>,
}

/// A folder that is being written. On disk it appears under its name when it is
/// complete. In an object store its files appear one by one, and the index, from
/// which all others are found, is the last.
pub(crate) enum OutputFolder {
    Local(LocalFolder),
    #[cfg(feature = "store")]
    Stored(StoredFolder),
}

impl OutputFolder {
    /// Begins the folder at `place`, which must not exist or be empty: other
    /// folders are never replaced. In an object store it may hold files of
    /// `contents` that an attempt before has left, but no index.
    pub(crate) fn create(
        place: &FolderPlace,
        contents: &Contents,
        http: &HttpOptions,
    ) -> Result<Self> {
        match place {
            FolderPlace::Path(target) => LocalFolder::create(target).map(Self::Local),
            #[cfg(feature = "store")]
            FolderPlace::Url(url) if zstn_store::is_store(url) => {
                StoredFolder::create(url, contents, http).map(Self::Stored)
            }
            FolderPlace::Url(url) => {
                let _ = (contents, http);
                Err(Error::Usage(format!(
                    "{url}: the result is a folder of files; name a local one, or one in an object \
                     store"
                )))
            }
        }
    }

    /// Begins the file at `path` of the folder.
    pub(crate) fn file(&self, path: &Path) -> Result<Output<'static>> {
        match self {
            Self::Local(folder) => folder.file(path),
            #[cfg(feature = "store")]
            Self::Stored(folder) => folder.file(path),
        }
    }

    /// Makes the subfolder at `path`; the one it is in must be there.
    pub(crate) fn make(&self, path: &Path) -> Result<()> {
        match self {
            Self::Local(folder) => folder.make(path),
            // Names with slashes are all that there is.
            #[cfg(feature = "store")]
            Self::Stored(_) => Ok(()),
        }
    }

    /// Writes a file of these bytes at `path`; there must be none.
    pub(crate) fn write(&self, path: impl AsRef<Path>, from: impl Read) -> Result<()> {
        match self {
            Self::Local(folder) => folder.write(path.as_ref(), from),
            #[cfg(feature = "store")]
            Self::Stored(folder) => folder.write(path.as_ref(), from),
        }
    }

    /// Makes the folder durable and gives it its name.
    pub(crate) fn finish(self) -> Result<()> {
        match self {
            Self::Local(folder) => folder.finish(),
            #[cfg(feature = "store")]
            Self::Stored(folder) => folder.finish(),
        }
    }
}
