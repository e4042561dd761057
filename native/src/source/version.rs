//! Which file an open one is, and whether it is still as it was.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;
use std::time::SystemTime;

/// The identity of a file: hard links and symbolic links to one file are
/// equal, whatever their paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileId {
    #[cfg(unix)]
    device_and_inode: (u64, u64),
    /// The standard library tells no more elsewhere, so that hard links are
    /// not seen there.
    #[cfg(not(unix))]
    canonical_path: std::path::PathBuf,
}

impl FileId {
    /// Returns the identity of the file at `path`, with links followed.
    pub fn of_path(path: &Path) -> io::Result<Self> {
        #[cfg(unix)]
        return Ok(Self::of_metadata(&path.metadata()?));
        #[cfg(not(unix))]
        return Ok(Self {
            canonical_path: path.canonicalize()?,
        });
    }

    #[cfg(unix)]
    fn of_metadata(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self {
            device_and_inode: (metadata.dev(), metadata.ino()),
        }
    }
}

/// A file as it was when it was opened.
///
/// Length and time of modification tell whether somebody wrote to it since.
/// The time of the last status change does not count: links to the file may
/// come and go.
#[derive(Debug)]
pub(super) struct FileVersion {
    file: File,
    id: FileId,
    len_bytes: u64,
    modified: Option<SystemTime>,
}

impl FileVersion {
    /// Remembers `file`, which was opened at `path`.
    pub(super) fn of(file: File, path: &Path) -> io::Result<Self> {
        let metadata = file.metadata()?;
        #[cfg(unix)]
        let (id, _) = (FileId::of_metadata(&metadata), path);
        #[cfg(not(unix))]
        let id = FileId::of_path(path)?;
        Ok(Self {
            id,
            len_bytes: metadata.len(),
            modified: modified(&metadata),
            file,
        })
    }

    pub(super) fn id(&self) -> &FileId {
        &self.id
    }

    /// Returns whether the file has the length and time it had.
    pub(super) fn is_current(&self) -> io::Result<bool> {
        let metadata = self.file.metadata()?;
        Ok(metadata.len() == self.len_bytes && modified(&metadata) == self.modified)
    }
}

/// Some file systems keep no such time.
fn modified(metadata: &Metadata) -> Option<SystemTime> {
    metadata.modified().ok()
}
