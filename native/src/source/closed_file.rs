//! Local files that are only open while they are read.

use std::borrow::Cow;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::slice;
use std::time::SystemTime;

use super::Source;
use super::file::FileSource;
use super::version::FileId;
use crate::{Error, Result};

/// A local file that is opened for every read, for checkpoints with more files than a
/// process may have open. Each read checks that the path still leads to the same
/// version of the file.
#[derive(Debug)]
pub(crate) struct ClosedFile {
    path: PathBuf,
    name: String,
    id: FileId,
    len_bytes: u64,
    modified: Option<SystemTime>,
}

impl ClosedFile {
    /// Records the version of the file at `path`, and closes the file.
    ///
    /// # Errors
    /// The errors of [`FileSource::open`].
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = FileSource::open(path)?;
        Ok(Self {
            path: path.into(),
            name: file.name().into(),
            id: file.id().clone(),
            len_bytes: file.len_bytes(),
            modified: file.modified(),
        })
    }

    fn reopen(&self) -> Result<FileSource> {
        let file = FileSource::open(&self.path)?;
        let version = (file.id(), file.len_bytes(), file.modified());
        match version == (&self.id, self.len_bytes, self.modified) {
            true => Ok(file),
            false => Err(Error::Changed {
                name: self.name.clone(),
                detail: ", another program wrote to it or replaced it".into(),
            }),
        }
    }
}

impl Source for ClosedFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        Ok(Cow::Owned(self.reopen()?.read(range)?.into_owned()))
    }

    fn read_into(&self, start: u64, out: &mut [u8]) -> Result<()> {
        self.reopen()?.read_into(start, out)
    }

    fn file_ids(&self) -> &[FileId] {
        slice::from_ref(&self.id)
    }

    fn check_unchanged(&self) -> Result<()> {
        self.reopen().map(drop)
    }
}
