//! Files that are being written and appear together.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::gaps;
use super::hidden::{hidden_prefix, parent, without_path};
use super::leftovers::{self, HiddenFolder};
use super::mode::{Mode, narrow};
use super::target::Target;
use super::temporary;
use super::unfinished::{Shown, Unfinished};
use crate::{Error, Result};

/// A hidden folder for files that are being written. Dropped, it is removed
/// with all that is in it.
#[derive(Debug)]
pub struct Staging {
    folder: HiddenFolder,
    unfinished: Unfinished,
}

impl Staging {
    /// Begins a folder in that for temporary files (`TMPDIR`).
    pub fn temporary() -> Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(".");
        let make = || leftovers::create_folder(&std::env::temp_dir(), &mut builder);
        let made = Unfinished::create(Shown::AsIs, make, HiddenFolder::path);
        let (unfinished, folder) = made.map_err(temporary::failed("create"))?;
        Ok(Self { folder, unfinished })
    }

    /// Begins a folder in `parent` whose name begins with `prefix`.
    ///
    /// # Errors
    /// I/O errors, which do not name it.
    pub fn inside(parent: &Path, prefix: &str) -> std::io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(prefix);
        let make = || builder.tempdir_in(parent).map(HiddenFolder::unlocked);
        let made = Unfinished::create(Shown::AsIs, make, HiddenFolder::path);
        let (unfinished, folder) = made.map_err(without_path)?;
        Ok(Self { folder, unfinished })
    }

    /// Begins a folder next to `output`, which is made of files in it. Messages call
    /// them by the name of the output.
    pub fn beside(output: &Path) -> Result<Self> {
        Self::hidden(output, Shown::Output(output.into()))
    }

    /// Begins a folder next to `output`, which it becomes.
    pub fn of_folder(output: &Path) -> Result<Self> {
        Self::hidden(output, Shown::Folder(output.into()))
    }

    fn hidden(output: &Path, shown: Shown) -> Result<Self> {
        let parent = parent(output);
        let prefix = hidden_prefix(output);
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix);
        let make = || leftovers::create_folder(parent, &mut builder);
        let made = Unfinished::create(shown, make, HiddenFolder::path);
        let (unfinished, folder) = made.map_err(|error| {
            Error::io(
                format!("write into {}", parent.display()),
                without_path(error),
            )
        })?;
        Ok(Self { folder, unfinished })
    }

    /// Returns the path of the folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
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
    /// [`Error::Exists`], pipes and devices of these names, before any file has its name, and I/O errors.
    pub fn publish(self, output: &Path, names: &[String], replace: bool) -> Result<Vec<PathBuf>> {
        let paths: Vec<PathBuf> = names.iter().map(|n| output.with_file_name(n)).collect();
        for path in &paths {
            check_file(path, replace)?;
        }
        let Self { folder, unfinished } = self;
        let mut failed = output;
        let renamed = unfinished.publish(|| {
            for (name, path) in names.iter().zip(&paths) {
                failed = path;
                if replace {
                    narrow(&folder.path().join(name), path);
                }
                gaps::move_file(&folder.path().join(name), path)?;
            }
            // Now, since a signal may end the process as soon as all have their names.
            let _ = std::fs::remove_dir_all(folder.path());
            Ok(())
        });
        renamed.map_err(|error| Error::io(format!("complete {}", failed.display()), error))?;
        gaps::sync_names(parent(output));
        Ok(paths)
    }

    /// Becomes the folder `output`, which must not exist or be empty.
    pub fn become_folder(self, output: &Path, mode: &Mode) -> Result<()> {
        mode.give_folder(self.folder.path());
        let fail = |error| Error::io(format!("complete {}", output.display()), error);
        gaps::sync_names(self.folder.path());
        let Self { folder, unfinished } = self;
        let renamed = unfinished.publish(|| {
            // Elsewhere a folder does not take the place of an empty one.
            #[cfg(not(unix))]
            let _ = std::fs::remove_dir(output);
            gaps::rename_folder(folder.path(), output)
        });
        renamed.map_err(|error| match error.kind() {
            ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists => folder_exists(output),
            _ => fail(error),
        })?;
        // The folder has another name, so there is nothing to remove.
        folder.keep();
        gaps::sync_names(parent(output));
        Ok(())
    }
}

/// Returns the error for a folder that cannot be created because its name is taken.
pub fn folder_exists(target: &Path) -> Error {
    Error::Usage(format!(
        "{} exists already, and a folder is never replaced; choose another name, or remove it \
         first",
        target.display()
    ))
}

/// Refuses a path that one file of several cannot get.
///
/// # Errors
/// [`Error::Exists`] without `replace`; a pipe or a device, which is never replaced.
pub fn check_file(path: &Path, replace: bool) -> Result<()> {
    if path.is_symlink() {
        return Err(Error::Usage(format!(
            "{} is a link, and the result is several files, which replace no link; name a file \
             to write",
            path.display()
        )));
    }
    match Target::of(path)? {
        target if target.existing().is_some() && !replace => Err(Error::exists(path)),
        Target::File(_) => Ok(()),
        Target::Stdout | Target::Stream(_) => Err(Error::Usage(format!(
            "{} is a pipe or a device, and the result is several files; name a file to write",
            path.display()
        ))),
    }
}
