//! Folders that appear only when they are complete.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::parent;
use super::unfinished::Unfinished;
use crate::{Error, Result};

/// A folder in the making. It lies beside its final place under a hidden name
/// until [`OutputFolder::finish`] renames it; dropped before, it is removed
/// with all that is in it.
#[derive(Debug)]
pub struct OutputFolder {
    folder: TempDir,
    target: PathBuf,
    unfinished: Unfinished,
}

impl OutputFolder {
    /// Begins the folder that is to be at `target`, where nothing may be yet
    /// but an empty folder: others are never replaced.
    pub fn create(target: &Path) -> Result<Self> {
        if target.as_os_str() == "-" {
            return Err(Error::Usage(
                "the result is a folder and cannot go to standard output; name one with -o".into(),
            ));
        }
        let name = target
            .file_name()
            .ok_or_else(|| Error::Usage(format!("{} is no folder name", target.display())))?;
        check_free(target)?;
        let mut builder = tempfile::Builder::new();
        let prefix = format!(".{}.", name.display());
        builder.prefix(&prefix).suffix(".part");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // What any new folder gets; the user's umask still applies.
            builder.permissions(fs::Permissions::from_mode(0o777));
        }
        let place = parent(target);
        let folder = builder
            .tempdir_in(place)
            .map_err(|error| Error::io(format!("write into {}", place.display()), error))?;
        Ok(Self {
            unfinished: Unfinished::new(folder.path()),
            folder,
            target: target.into(),
        })
    }

    /// Where the file of that name, a plain one, is to be written.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file of these bytes; there must be none of that name.
    pub fn write(&self, name: &str, mut from: impl Read) -> Result<()> {
        let fail = |error| {
            let path = self.target.join(name);
            Error::io(format!("write {}", path.display()), error)
        };
        let mut file = File::create_new(self.path(name)).map_err(fail)?;
        io::copy(&mut from, &mut file).map_err(fail)?;
        file.sync_all().map_err(fail)
    }

    /// Makes the folder durable and gives it its name.
    pub fn finish(self) -> Result<()> {
        let target = self.target;
        let fail = |error| Error::io(format!("complete {}", target.display()), error);
        check_free(&target)?;
        #[cfg(unix)]
        File::open(self.folder.path())
            .and_then(|folder| folder.sync_all())
            .map_err(fail)?;
        // Elsewhere a folder does not take the place of an empty one.
        #[cfg(not(unix))]
        let _ = fs::remove_dir(&target);
        fs::rename(self.folder.path(), &target).map_err(fail)?;
        let _ = self.folder.keep();
        drop(self.unfinished);
        #[cfg(unix)]
        File::open(parent(&target))
            .and_then(|folder| folder.sync_all())
            .map_err(fail)?;
        Ok(())
    }
}

fn check_free(target: &Path) -> Result<()> {
    let taken = match fs::read_dir(target) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => error.kind() != ErrorKind::NotFound,
    };
    if taken {
        return Err(Error::Usage(format!(
            "{} exists already, and a folder is never replaced, not even with --force; choose \
             another with -o, or remove it first",
            target.display()
        )));
    }
    Ok(())
}
