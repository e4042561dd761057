//! The identity and version of open files.

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;
use std::time::SystemTime;

use super::file::read_exact_at;
use super::{regular, scheme};
use crate::{Error, Result};

/// The identity of a file. All hard links and symbolic links to one file have the same
/// identity.
#[derive(Debug, Clone)]
pub struct FileId {
    #[cfg(unix)]
    device_and_inode: (u64, u64),
    /// The permissions of the file, which are not part of its identity.
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
    /// Returns the permissions that the file had when this value was made, as the bits
    /// of `st_mode`. `None` on systems without them.
    pub(crate) fn mode(&self) -> Option<u32> {
        #[cfg(unix)]
        return Some(self.mode);
        #[cfg(not(unix))]
        return None;
    }

    /// Returns the identity of the file at `path`, following links.
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

/// A file in the version that it had when it was opened.
///
/// A change of the length or of the modification time shows that the file was written
/// to. The status change time is ignored, because it also changes when links to the
/// file are added or removed.
#[derive(Debug)]
pub(super) struct FileVersion {
    file: File,
    id: FileId,
    len_bytes: u64,
    modified: Option<SystemTime>,
}

impl FileVersion {
    /// Opens the file at `path` for reading. Folders, pipes and devices are refused.
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

    /// Records the version of `file`, which was opened at `path`.
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

    /// Fills `out` with bytes of the file from the offset `start`. Messages call the
    /// file `name`.
    ///
    /// # Errors
    /// I/O errors; [`Error::Changed`] if the file was truncated.
    pub(super) fn read_into(&self, name: &str, start: u64, out: &mut [u8]) -> Result<()> {
        read_exact_at(&self.file, name, 0, start, out).or_else(|error| {
            // A file that ends early has most probably been truncated.
            self.check_unchanged(name)?;
            Err(error)
        })
    }

    /// Returns [`Error::Changed`] unless the file has its original length and
    /// modification time. Messages call the file `name`.
    pub(super) fn check_unchanged(&self, name: &str) -> Result<()> {
        let metadata = self.file.metadata();
        let metadata = metadata.map_err(|error| Error::io(format!("look at {name}"), error))?;
        if metadata.len() == self.len_bytes && modified(&metadata) == self.modified {
            return Ok(());
        }
        Err(Error::Changed {
            name: name.to_owned(),
            detail: ", another program wrote to it".into(),
        })
    }
}

/// Returns the modification time; some file systems do not record one.
fn modified(metadata: &Metadata) -> Option<SystemTime> {
    metadata.modified().ok()
}
