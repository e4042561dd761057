//! Local files that are read by range.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::slice;
use std::time::SystemTime;

use super::version::{FileId, FileVersion};
use super::{Source, check_inside};
use crate::{Error, Result};

/// A local file that is read by range into memory, for programs that keep it open. If
/// another process truncates or modifies the file, reads return
/// [`Error::Changed`](crate::Error::Changed).
#[derive(Debug)]
pub struct FileSource {
    name: String,
    version: FileVersion,
}

impl FileSource {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// A path that does not exist, cannot be read, or is a folder, a pipe or a device.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self {
            name: path.display().to_string(),
            version: FileVersion::open(path)?,
        })
    }

    /// Uses `name` instead of the path in messages.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Returns the identity of the file.
    pub(super) fn id(&self) -> &FileId {
        self.version.id()
    }

    /// Returns the modification time of the file when it was opened, if the file system
    /// records one.
    #[must_use]
    pub fn modified(&self) -> Option<SystemTime> {
        self.version.modified()
    }
}

impl Source for FileSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn len_bytes(&self) -> u64 {
        self.version.len_bytes()
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        check_inside(self, &range)?;
        let mut bytes = zstn_core::bytes::buffer(range.end - range.start)?;
        self.read_into(range.start, &mut bytes)?;
        Ok(Cow::Owned(bytes))
    }

    fn read_into(&self, start: u64, out: &mut [u8]) -> Result<()> {
        check_inside(self, &(start..start.saturating_add(out.len() as u64)))?;
        self.version.read_into(&self.name, start, out)
    }

    fn file_ids(&self) -> &[FileId] {
        slice::from_ref(self.version.id())
    }

    fn check_unchanged(&self) -> Result<()> {
        self.version.check_unchanged(&self.name)
    }
}

/// Reads bytes at `start` and returns their number, which is 0 only at the end of the
/// file.
pub(super) fn read_at(file: &File, out: &mut [u8], start: u64) -> io::Result<usize> {
    loop {
        #[cfg(unix)]
        let read = std::os::unix::fs::FileExt::read_at(file, out, start);
        #[cfg(windows)]
        let read = std::os::windows::fs::FileExt::seek_read(file, out, start);
        match read {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// Fills `out` with bytes of the file that messages call `name`, beginning at the
/// offset `start`. The file itself begins at the offset `first` of `file`.
///
/// # Errors
/// I/O errors, with the name and the offset of the byte that could not be read.
pub(super) fn read_exact_at(
    file: &File,
    name: &str,
    first: u64,
    mut start: u64,
    mut out: &mut [u8],
) -> Result<()> {
    while !out.is_empty() {
        let read = match read_at(file, out, first.saturating_add(start)) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            read => read,
        };
        let len = read.map_err(|error| Error::io(format!("read {name} at byte {start}"), error))?;
        out = &mut out[len..];
        start += len as u64;
    }
    Ok(())
}
