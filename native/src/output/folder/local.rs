//! Output folders on disk.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::output::staging::{Staging, folder_exists};
use crate::output::{Mode, gaps};
use crate::{Error, Output, Result};

/// A folder that is being written. It is under a hidden name next to its final path
/// until [`LocalFolder::finish`] renames it; if it is dropped earlier, it is removed
/// with its contents.
#[derive(Debug)]
pub(crate) struct LocalFolder {
    staging: Staging,
    target: PathBuf,
    mode: Mode,
}

impl LocalFolder {
    /// Begins the folder `target`, which must be missing or an empty folder: other
    /// folders are never replaced.
    pub(super) fn create(target: &Path) -> Result<Self> {
        if target.file_name().is_none() {
            let detail = format!("{} is not the name of a folder", target.display());
            return Err(Error::Usage(detail));
        }
        // Collecting the components removes a trailing slash, which would follow a
        // link.
        let target: PathBuf = target.components().collect();
        check_free(&target)?;
        Ok(Self {
            staging: Staging::of_folder(&target)?,
            target,
            mode: Mode::default(),
        })
    }

    /// Gives the folder the permissions of the input folder at `path`.
    pub(super) fn like(&mut self, path: &Path) {
        self.mode = Mode::of(path);
    }

    /// Begins the file at `path`.
    pub(super) fn file(&self, path: &Path) -> Result<Output<'static>> {
        Output::create(&self.staging.path(path))
    }

    /// Creates the subfolder at `path` with these permissions; its parent must exist.
    pub(super) fn make(&self, path: &Path, mode: &Mode) -> Result<()> {
        let full = self.target.join(path);
        let own = self.staging.path(path);
        fs::create_dir(&own).map_err(Error::file("make the folder", &full))?;
        mode.give_folder(&own);
        Ok(())
    }

    /// Writes the bytes of `from` to a new file at `path` with these permissions.
    pub(super) fn write(&self, path: &Path, mut from: impl Read, mode: &Mode) -> Result<()> {
        let fail = |error| {
            let path = self.target.join(path);
            Error::io(format!("write {}", path.display()), error)
        };
        let mut file = File::create_new(self.staging.path(path)).map_err(fail)?;
        io::copy(&mut from, &mut file).map_err(fail)?;
        mode.give(&file, None);
        gaps::sync(&file).map_err(fail)
    }

    /// Makes the folder durable and renames it to its final name.
    pub(super) fn finish(self) -> Result<()> {
        check_free(&self.target)?;
        self.staging.become_folder(&self.target, &self.mode)
    }
}

/// Refuses a target folder whose name is already taken.
fn check_free(target: &Path) -> Result<()> {
    // A link that leads to nothing also takes the name.
    let exists = target.symlink_metadata().is_ok();
    let taken = match fs::read_dir(target) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if exists || error.kind() == ErrorKind::NotFound => exists,
        Err(error) => return Err(Error::file("write", target)(error)),
    };
    if taken {
        return Err(folder_exists(target));
    }
    Ok(())
}
