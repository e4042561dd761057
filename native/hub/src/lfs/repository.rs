//! The git repository of a command's current folder.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use zstn::{Error, Result};

/// The git repository of the current folder.
#[derive(Debug, Clone)]
pub struct Repository {
    /// The git directory that all worktrees share.
    common: PathBuf,
}

impl Repository {
    /// Returns the repository of the current folder, or `None` outside of one.
    ///
    /// # Errors
    /// If git cannot be started.
    pub fn find() -> Result<Option<Self>> {
        let arguments = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
        let common = git(arguments)?;
        Ok(common.map(|common| Self {
            common: common.into(),
        }))
    }

    /// Returns the folder where git-lfs stores its objects.
    ///
    /// # Errors
    /// If git cannot be started.
    pub fn lfs_folder(&self) -> Result<PathBuf> {
        let own = git(["config", "--get", "--type=path", "lfs.storage"])?;
        Ok(match own {
            Some(folder) if !folder.is_empty() => self.common.join(folder),
            _ => self.common.join("lfs"),
        })
    }

    /// Returns the folder for this program's files, next to the objects, so that files
    /// can be renamed instead of copied.
    ///
    /// # Errors
    /// If git cannot be started.
    pub(super) fn own_folder(&self) -> Result<PathBuf> {
        Ok(self.lfs_folder()?.join("zstn"))
    }

    /// Returns the path of the filter's log. git-lfs does not show the messages of
    /// filters.
    ///
    /// # Errors
    /// If git cannot be started.
    pub fn filter_log(&self) -> Result<PathBuf> {
        Ok(self.own_folder()?.join("filter.log"))
    }

    /// Returns the path of the working tree's `.lfsconfig`, if it exists.
    #[must_use]
    pub fn lfsconfig(&self) -> Option<PathBuf> {
        let top = git(["rev-parse", "--show-toplevel"]).ok().flatten()?;
        let path = Path::new(&top).join(".lfsconfig");
        path.is_file().then_some(path)
    }
}

/// Runs git and returns its output, or `None` if it fails.
///
/// # Errors
/// If git cannot be started, or prints text that is not UTF-8 on a system other than
/// Unix.
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

/// Converts the output of git, which may be a path. On Unix, paths are arbitrary bytes.
#[cfg(unix)]
#[expect(clippy::unnecessary_wraps)]
fn text(printed: Vec<u8>) -> Result<OsString> {
    use std::os::unix::ffi::OsStringExt as _;
    Ok(OsString::from_vec(printed))
}

/// Converts the output of git, which has to be UTF-8 on this system.
#[cfg(not(unix))]
fn text(printed: Vec<u8>) -> Result<OsString> {
    let text = String::from_utf8(printed);
    text.map(OsString::from)
        .map_err(|_| Error::Usage("git names a path that is not UTF-8; move the repository".into()))
}
