//! Files in the making that appear together.

use std::fs::File;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::parent;
use super::unfinished::Unfinished;
use crate::{Error, Result};

/// A hidden folder beside an output. Dropped, it is removed with all that is
/// in it.
#[derive(Debug)]
pub struct Staging {
    folder: TempDir,
    unfinished: Unfinished,
}

impl Staging {
    /// Begins a folder beside `output`.
    pub fn beside(output: &Path) -> Result<Self> {
        let parent = parent(output);
        let name = output.file_name().unwrap_or_default();
        let prefix = format!(".{}.", name.display());
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(".part");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // It may become the output; the user's umask still applies.
            builder.permissions(std::fs::Permissions::from_mode(0o777));
        }
        let folder = builder
            .tempdir_in(parent)
            .map_err(|error| Error::io(format!("write into {}", parent.display()), error))?;
        Ok(Self {
            unfinished: Unfinished::new(folder.path()),
            folder,
        })
    }

    /// Where the file called `name` goes.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Gives the files of those names to the folder that `output` is in, one
    /// after the other; returns where they are.
    pub fn publish(self, output: &Path, names: &[String]) -> Result<Vec<PathBuf>> {
        let mut paths = Vec::with_capacity(names.len());
        for name in names {
            let path = output.with_file_name(name);
            std::fs::rename(self.path(name), &path).map_err(Error::file("complete", &path))?;
            paths.push(path);
        }
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
        // Elsewhere a folder does not take the place of an empty one.
        #[cfg(not(unix))]
        let _ = std::fs::remove_dir(output);
        std::fs::rename(self.folder.path(), output).map_err(fail)?;
        // Nothing is there any more to be removed.
        let _ = self.folder.keep();
        drop(self.unfinished);
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
