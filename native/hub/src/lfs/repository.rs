//! The repository that a command runs in, as git describes it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use zstn::{Error, Result};

/// The repository of the current folder.
#[derive(Debug, Clone)]
pub struct Repository {
    /// The git directory that all worktrees share.
    common: PathBuf,
}

impl Repository {
    /// Asks git for the repository of the current folder; `None` outside of one.
    ///
    /// # Errors
    /// A git that cannot be started.
    pub fn find() -> Result<Option<Self>> {
        let arguments = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
        let common = git(arguments)?;
        Ok(common.map(|common| Self {
            common: common.into(),
        }))
    }

    /// Returns the folder of git-lfs in it, which holds the objects.
    ///
    /// # Errors
    /// A git that cannot be started.
    pub fn lfs_folder(&self) -> Result<PathBuf> {
        let own = git(["config", "--get", "--type=path", "lfs.storage"])?;
        Ok(match own {
            Some(folder) if !folder.is_empty() => self.common.join(folder),
            _ => self.common.join("lfs"),
        })
    }

    /// Returns the folder for files of this program, next to the objects. Renaming
    /// from there to them takes no copy.
    ///
    /// # Errors
    /// A git that cannot be started.
    pub(super) fn own_folder(&self) -> Result<PathBuf> {
        Ok(self.lfs_folder()?.join("zstn"))
    }

    /// Returns the log of the filter, whose messages git-lfs does not show.
    ///
    /// # Errors
    /// A git that cannot be started.
    pub fn filter_log(&self) -> Result<PathBuf> {
        Ok(self.own_folder()?.join("filter.log"))
    }

    /// Returns `.lfsconfig` of the working tree, if there is one.
    #[must_use]
    pub fn lfsconfig(&self) -> Option<PathBuf> {
        let top = git(["rev-parse", "--show-toplevel"]).ok().flatten()?;
        let path = Path::new(&top).join(".lfsconfig");
        path.is_file().then_some(path)
    }
}

/// Runs git and returns what it prints; `None` if it fails.
///
/// # Errors
/// A git that cannot be started; elsewhere than on Unix, text that is not UTF-8.
pub(super) fn git(
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
) -> Result<Option<OsString>> {
    let output = Command::new("git")
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(|error| Error::io("start git", error))?;
    if !output.status.success() {
        return Ok(None);
    }
    let mut printed = output.stdout;
    while printed.last() == Some(&b'\n') {
        printed.pop();
    }
    text(printed).map(Some)
}

/// Returns what git has printed, which may be a path: on Unix any bytes.
#[cfg(unix)]
#[expect(clippy::unnecessary_wraps)]
fn text(printed: Vec<u8>) -> Result<OsString> {
    use std::os::unix::ffi::OsStringExt as _;
    Ok(OsString::from_vec(printed))
}

/// Returns what git has printed, which is UTF-8 on other systems.
#[cfg(not(unix))]
fn text(printed: Vec<u8>) -> Result<OsString> {
    let text = String::from_utf8(printed);
    text.map(OsString::from)
        .map_err(|_| Error::Usage("git names a path that is not UTF-8; move the repository".into()))
}
