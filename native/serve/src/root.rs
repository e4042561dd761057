//! The served folder and the places that links in it may lead to.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// A folder, and the folders outside it that its links may lead to.
#[derive(Debug, Clone)]
pub struct Root {
    folder: PathBuf,
    linked: Vec<PathBuf>,
    /// The `blobs` folder of a model hub's cache, if the folder is a snapshot in one.
    blobs: Option<PathBuf>,
}

/// The reason why a path leads to no file.
#[derive(Debug, PartialEq, Eq)]
pub enum Absent {
    /// The path does not exist or is hidden.
    Nothing,
    /// The path is a link to this place, outside the folder.
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

    /// Permits links that lead into `folder`.
    pub(super) fn link(&mut self, folder: &Path) -> io::Result<()> {
        self.linked.push(folder.canonicalize()?);
        Ok(())
    }

    /// Returns the real path of `path`, which is below the folder. A link that leads
    /// outside is refused without checking whether the rest of the path exists.
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

/// Returns the `blobs` folder next to the `snapshots` folder that contains `folder`. In
/// a hub's cache, `models--NAME/snapshots/REVISION/…` are links to
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
