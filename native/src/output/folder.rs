//! Folders that appear only when they are complete.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use super::staging::Staging;
use crate::{Error, Result};

/// A folder in the making. It lies beside its final place under a hidden name
/// until [`OutputFolder::finish`] renames it; dropped before, it is removed
/// with all that is in it.
#[derive(Debug)]
pub struct OutputFolder {
    staging: Staging,
    target: PathBuf,
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
        if target.file_name().is_none() {
            let detail = format!("{} is no folder name", target.display());
            return Err(Error::Usage(detail));
        }
        check_free(target)?;
        Ok(Self {
            staging: Staging::beside(target)?,
            target: target.into(),
        })
    }

    /// Where the file of that name, a plain one, is to be written.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.staging.path(name)
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
        check_free(&self.target)?;
        self.staging.become_folder(&self.target)
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
