//! The identity of an open file, and whether it has changed.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;
use std::time::SystemTime;

use super::file::read_exact_at;
use super::{regular, scheme};
use crate::{Error, Result};

/// The identity of a file: hard links and symbolic links to one file are
/// equal, whatever their paths.
#[derive(Debug, Clone)]
pub struct FileId {
    #[cfg(unix)]
    device_and_inode: (u64, u64),
    /// The permissions that it had, which are not a part of its identity.
    #[cfg(unix)]
    mode: u32,
    #[cfg(windows)]
    volume_and_index: (u64, u64),
}

impl PartialEq for FileId {
    fn eq(&self, other: &Self) -> bool {
        #[cfg(unix)]
        return self.device_and_inode == other.device_and_inode;
        #[cfg(windows)]
        return self.volume_and_index == other.volume_and_index;
    }
}

impl Eq for FileId {}

impl FileId {
    /// Returns the permissions that the file had when this was made, where a system
    /// has them: the bits of `st_mode`.
    pub(crate) fn mode(&self) -> Option<u32> {
        #[cfg(unix)]
        return Some(self.mode);
        #[cfg(not(unix))]
        return None;
    }

    /// Returns the identity of the file at `path`, with links followed.
    pub fn of_path(path: &Path) -> io::Result<Self> {
        #[cfg(unix)]
        return Ok(Self::of_metadata(&path.metadata()?));
        #[cfg(windows)]
        return Self::of_handle(winapi_util::Handle::from_path_any(path)?);
    }

    #[cfg(windows)]
    fn of_handle(handle: impl winapi_util::AsHandleRef) -> io::Result<Self> {
        let information = winapi_util::file::information(handle)?;
        Ok(Self {
            volume_and_index: (information.volume_serial_number(), information.file_index()),
        })
    }

    #[cfg(unix)]
    fn of_metadata(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self {
            device_and_inode: (metadata.dev(), metadata.ino()),
            mode: metadata.mode(),
        }
    }
}

/// A file as it was when it was opened.
///
/// Length and time of modification show whether somebody wrote to it since.
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
    /// Opens the file at `path` for reading. Folders, pipes and devices are
    /// refused.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let metadata = match path.metadata() {
            Ok(metadata) => metadata,
            Err(error) => {
                let is_missing = error.kind() == io::ErrorKind::NotFound;
                let address = is_missing.then(|| scheme::missing_file(&path.to_string_lossy()));
                let error = || Error::file("open", path)(error);
                return Err(address.flatten().unwrap_or_else(error));
            }
        };
        if let Some(kind) = regular::name(metadata.file_type()) {
            let advice = match kind {
                "folder" => "; name a file in it",
                _ => ", not a file",
            };
            let path = path.display();
            return Err(Error::Usage(format!("{path} is a {kind}{advice}")));
        }
        let file = regular::open(path).map_err(Error::file("open", path))?;
        Self::of(file, path).map_err(Error::file("look at", path))
    }

    /// Remembers `file`, which was opened at `path`.
    fn of(file: File, path: &Path) -> io::Result<Self> {
        let metadata = file.metadata()?;
        #[cfg(unix)]
        let (id, _) = (FileId::of_metadata(&metadata), path);
        #[cfg(windows)]
        let (id, _) = (FileId::of_handle(&file)?, path);
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

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    pub(super) fn modified(&self) -> Option<SystemTime> {
        self.modified
    }

    /// Fills `out` with the bytes from `start` on of the file, called `name` in
    /// messages.
    ///
    /// # Errors
    /// I/O errors; [`Error::Changed`] if the file has been cut short.
    pub(super) fn read_into(&self, name: &str, start: u64, out: &mut [u8]) -> Result<()> {
        read_exact_at(&self.file, name, 0, start, out).or_else(|error| {
            // The usual reason for an early end is a file that was cut short.
            self.check_unchanged(name)?;
            Err(error)
        })
    }

    /// Returns [`Error::Changed`] unless the file, called `name` in messages,
    /// has the length and time it had.
    pub(super) fn check_unchanged(&self, name: &str) -> Result<()> {
        let metadata = self.file.metadata();
        let metadata = metadata.map_err(|error| Error::io(format!("look at {name}"), error))?;
        if metadata.len() == self.len_bytes && modified(&metadata) == self.modified {
            return Ok(());
        }
        Err(Error::Changed {
            name: name.to_owned(),
            detail: ", somebody wrote to it".into(),
        })
    }
}

/// Some file systems keep no such time.
fn modified(metadata: &Metadata) -> Option<SystemTime> {
    metadata.modified().ok()
}
