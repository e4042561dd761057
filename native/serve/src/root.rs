//! The served folder, and where its links may lead.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// A folder, and those outside it that links in it may lead to.
#[derive(Debug, Clone)]
pub struct Root {
    folder: PathBuf,
    linked: Vec<PathBuf>,
    /// The files that a model hub's cache keeps for this folder, if it is part
    /// of one.
    blobs: Option<PathBuf>,
}

/// Why there is nothing at a path.
#[derive(Debug, PartialEq, Eq)]
pub enum Absent {
    /// There is nothing, or nothing to be seen.
    Nothing,
    /// It is a link out of the folder, to this place.
    Outside(PathBuf),
}

impl Root {
    pub fn new(folder: &Path) -> io::Result<Self> {
        let folder = folder.canonicalize()?;
        Ok(Self {
            blobs: blobs(&folder),
            folder,
            linked: Vec::new(),
        })
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Lets links lead into `folder`.
    pub(super) fn link(&mut self, folder: &Path) -> io::Result<()> {
        self.linked.push(folder.canonicalize()?);
        Ok(())
    }

    /// Returns the real path of `path`, which is relative to the folder. A link
    /// that leads outside is not followed, not even to see whether its target
    /// exists.
    pub fn follow(&self, path: &Path) -> Result<PathBuf, Absent> {
        let relative = path.strip_prefix(&self.folder);
        let relative = relative.map_err(|_| Absent::Nothing)?;
        let mut real = self.folder.clone();
        for part in relative {
            real.push(part);
            real = real.canonicalize().map_err(|_| Absent::Nothing)?;
            if !self.admits(&real) {
                return Err(Absent::Outside(real));
            }
        }
        Ok(real)
    }

    fn admits(&self, real: &Path) -> bool {
        let mut folders = self.linked.iter().chain([&self.folder]);
        folders.any(|folder| real.starts_with(folder))
            || (real.parent() == self.blobs.as_deref() && real.is_file())
    }
}

/// Returns the `blobs` next to `snapshots` if `folder` is in those: a hub's
/// cache holds `models--NAME/snapshots/REVISION/…`, links to
/// `models--NAME/blobs/HASH`.
fn blobs(folder: &Path) -> Option<PathBuf> {
    let mut above = folder.ancestors();
    let snapshots = above.find(|folder| folder.file_name() == Some(OsStr::new("snapshots")))?;
    let blobs = snapshots.with_file_name("blobs");
    blobs
        .symlink_metadata()
        .is_ok_and(|metadata| metadata.is_dir())
        .then_some(blobs)
}
