//! Files that are being written and appear together.

use std::fs::File;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::hidden::{PART_SUFFIX, hidden_prefix, parent, without_path};
use super::target::Target;
use super::temporary;
use super::unfinished::Unfinished;
use crate::{Error, Result};

/// A hidden folder for files that are being written. Dropped, it is removed
/// with all that is in it.
#[derive(Debug)]
pub struct Staging {
    folder: TempDir,
    unfinished: Unfinished,
}

impl Staging {
    /// Begins a folder in that for temporary files (`TMPDIR`).
    pub fn temporary() -> Result<Self> {
        let made = Unfinished::create(tempfile::tempdir, TempDir::path);
        let (unfinished, folder) = made.map_err(temporary::failed("create"))?;
        Ok(Self { folder, unfinished })
    }

    /// Begins a folder next to `output`.
    pub fn beside(output: &Path) -> Result<Self> {
        let parent = parent(output);
        let prefix = hidden_prefix(output);
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(PART_SUFFIX);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // It may become the output; the user's umask still applies.
            builder.permissions(std::fs::Permissions::from_mode(0o777));
        }
        let made = Unfinished::create(|| builder.tempdir_in(parent), TempDir::path);
        let (unfinished, folder) = made.map_err(|error| {
            Error::io(
                format!("write into {}", parent.display()),
                without_path(error),
            )
        })?;
        Ok(Self { folder, unfinished })
    }

    /// Returns the path to write the file `path` of the folder to.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Moves the files of these names to the folder that `output` is in, all of
    /// them or, if the process has to stop before, none; returns their paths.
    /// With `replace` they replace existing files.
    ///
    /// # Errors
    /// [`Error::Exists`], before any file has its name, and I/O errors.
    pub fn publish(self, output: &Path, names: &[String], replace: bool) -> Result<Vec<PathBuf>> {
        let paths: Vec<PathBuf> = names.iter().map(|n| output.with_file_name(n)).collect();
        for path in &paths {
            if Target::of(path)?.existing().is_some() && !replace {
                return Err(Error::exists(path));
            }
        }
        let Self { folder, unfinished } = self;
        let mut failed = output;
        let renamed = unfinished.publish(|| {
            for (name, path) in names.iter().zip(&paths) {
                failed = path;
                std::fs::rename(folder.path().join(name), path)?;
            }
            Ok(())
        });
        renamed.map_err(|error| Error::io(format!("complete {}", failed.display()), error))?;
        sync(parent(output))?;
        Ok(paths)
    }

    /// Becomes the folder `output`, which must not exist or be empty.
    pub fn become_folder(self, output: &Path) -> Result<()> {
        let fail = |error| Error::io(format!("complete {}", output.display()), error);
        #[cfg(unix)]
        File::open(self.folder.path())
            .and_then(|folder| folder.sync_all())
            .map_err(fail)?;
        let Self { folder, unfinished } = self;
        let renamed = unfinished.publish(|| {
            // Elsewhere a folder does not take the place of an empty one.
            #[cfg(not(unix))]
            let _ = std::fs::remove_dir(output);
            std::fs::rename(folder.path(), output)
        });
        renamed.map_err(fail)?;
        // Nothing is there any more to be removed.
        let _ = folder.keep();
        sync(parent(output))
    }
}

/// Makes new names in `folder` durable.
fn sync(folder: &Path) -> Result<()> {
    #[cfg(unix)]
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(Error::file("complete the files in", folder))?;
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}
