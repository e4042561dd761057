//! A hidden folder for files that appear together when all of them are complete.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::cleanup::{HiddenFolder, Shown, Unfinished, create_folder};
use super::fallbacks;
use super::permissions::{Mode, narrow};
use super::target::Target;
use super::temporary::{self, hidden_prefix, parent, without_path};
use crate::{Error, Result};

/// A hidden folder for files that are being written. When it is dropped, the folder is
/// removed with all of its contents.
#[derive(Debug)]
pub struct Staging {
    folder: HiddenFolder,
    unfinished: Unfinished,
}

impl Staging {
    /// Creates a folder in the system's folder for temporary files (`TMPDIR`).
    pub fn temporary() -> Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(".");
        let make = || create_folder(&std::env::temp_dir(), &mut builder);
        let made = Unfinished::create(Shown::AsIs, make, HiddenFolder::path);
        let (unfinished, folder) = made.map_err(temporary::failed("create"))?;
        Ok(Self { folder, unfinished })
    }

    /// Creates a folder in `parent` whose name begins with `prefix`.
    ///
    /// # Errors
    /// I/O errors, which do not contain the path of the new folder.
    pub fn inside(parent: &Path, prefix: &str) -> std::io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(prefix);
        let make = || builder.tempdir_in(parent).map(HiddenFolder::unlocked);
        let made = Unfinished::create(Shown::AsIs, make, HiddenFolder::path);
        let (unfinished, folder) = made.map_err(without_path)?;
        Ok(Self { folder, unfinished })
    }

    /// Creates a folder next to `output` for the files of that output. Messages call
    /// all of them by the name of the output.
    pub fn beside(output: &Path) -> Result<Self> {
        Self::hidden(output, Shown::Output(output.into()))
    }

    /// Creates a folder next to `output` that will be renamed to `output`.
    pub fn of_folder(output: &Path) -> Result<Self> {
        Self::hidden(output, Shown::Folder(output.into()))
    }

    fn hidden(output: &Path, shown: Shown) -> Result<Self> {
        let parent = parent(output);
        let prefix = hidden_prefix(output);
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix);
        let make = || create_folder(parent, &mut builder);
        let made = Unfinished::create(shown, make, HiddenFolder::path);
        let (unfinished, folder) = made.map_err(|error| {
            Error::io(
                format!("write into {}", parent.display()),
                without_path(error),
            )
        })?;
        Ok(Self { folder, unfinished })
    }

    /// Returns the temporary path of the folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the path of the file called `path` inside the folder.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Moves the files with these names into the folder of `output` and returns their
    /// new paths. If the process is being stopped, no file is moved. If `replace` is
    /// true, existing files are replaced.
    ///
    /// # Errors
    /// [`Error::Exists`], and pipes or devices with these names, before any file is
    /// moved; I/O errors.
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
                fallbacks::move_file(&folder.path().join(name), path)?;
            }
            // The folder is removed here, because a signal may end the process as soon
            // as all files have their names.
            let _ = std::fs::remove_dir_all(folder.path());
            Ok(())
        });
        renamed.map_err(|error| Error::io(format!("complete {}", failed.display()), error))?;
        fallbacks::sync_names(parent(output));
        Ok(paths)
    }

    /// Renames the folder to `output`, which must be missing or an empty folder.
    pub(crate) fn become_folder(self, output: &Path, mode: &Mode) -> Result<()> {
        mode.give_folder(self.folder.path());
        let fail = |error| Error::io(format!("complete {}", output.display()), error);
        fallbacks::sync_names(self.folder.path());
        let Self { folder, unfinished } = self;
        let renamed = unfinished.publish(|| {
            // Other systems than Unix do not rename a folder to the name of an empty
            // one.
            #[cfg(not(unix))]
            let _ = std::fs::remove_dir(output);
            fallbacks::rename_folder(folder.path(), output)
        });
        renamed.map_err(|error| match error.kind() {
            ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists => folder_exists(output),
            _ => fail(error),
        })?;
        // The folder has its final name, so the drop of the handle must not remove it.
        folder.keep();
        fallbacks::sync_names(parent(output));
        Ok(())
    }
}

/// Returns the error for an output folder whose name is already taken.
pub fn folder_exists(target: &Path) -> Error {
    Error::Usage(format!(
        "{} already exists, and a folder is never replaced; choose another name, or remove it \
         first",
        target.display()
    ))
}

/// Refuses a path at which one of several output files cannot be written.
///
/// # Errors
/// [`Error::Exists`] if the file exists and `replace` is false; [`Error::Usage`] for a
/// link, a pipe or a device, which are never replaced.
pub fn check_file(path: &Path, replace: bool) -> Result<()> {
    if path.is_symlink() {
        return Err(Error::Usage(format!(
            "{} is a link, which is never replaced when several files are written; choose \
             another output name, or remove it first",
            path.display()
        )));
    }
    match Target::of(path)? {
        target if target.existing().is_some() && !replace => Err(Error::exists(path)),
        Target::File(_) => Ok(()),
        Target::Stdout | Target::Stream(_) => Err(Error::Usage(format!(
            "{} is a pipe or a device, which is never replaced when several files are \
             written; choose another output name, or remove it first",
            path.display()
        ))),
    }
}
