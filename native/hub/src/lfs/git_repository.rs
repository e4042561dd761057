//! The git repository of a command's current folder, and the folders for unfinished
//! files.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use crate::lock::Lock;
use zstn::internals::{Staging, temporary};
use zstn::{Error, Result};

/// The git repository of the current folder.
#[derive(Debug, Clone)]
pub struct GitRepository {
    /// The git directory that all worktrees share.
    common: PathBuf,
}

impl GitRepository {
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

const PREFIX: &str = "unfinished-";

/// The name of the lock file in a scratch folder.
const LOCK: &str = "lock";

/// The age from which an unlocked folder counts as abandoned by a killed process.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// A folder for unfinished files, which is removed when this is dropped.
///
/// In a repository, it is next to git-lfs's objects, so that finished files can be
/// renamed into place. It is not in git-lfs's own temporary folder, because every
/// git-lfs command may remove unknown files there.
pub(super) struct Scratch {
    /// Keeps other processes from removing the folder while this one uses it; `None` on
    /// a file system without locks. It is dropped before the folder, because some
    /// systems cannot remove open files.
    _lock: Option<Lock>,
    folder: Staging,
    /// The parent folder in a repository; `None` in the system's temporary folder.
    place: Option<PathBuf>,
}

impl Scratch {
    /// Creates the folder, and removes old ones that killed processes have left.
    ///
    /// # Errors
    /// I/O errors.
    pub(super) fn create(repository: Option<&GitRepository>) -> Result<Self> {
        let parent = match repository {
            Some(repository) => repository.own_folder()?,
            None => std::env::temp_dir(),
        };
        if repository.is_some() {
            let made = fs::create_dir_all(&parent);
            made.map_err(Error::file("create the folder", &parent))?;
            remove_abandoned(&parent);
        }
        let folder = Staging::inside(&parent, PREFIX);
        let place = repository.is_some().then(|| parent.clone());
        let folder = folder.map_err(failed(place.as_deref(), "create"))?;
        Ok(Self {
            place,
            _lock: Lock::take(&folder.path(LOCK)).ok().flatten(),
            folder,
        })
    }

    /// Returns the path of a file in the folder.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path(name)
    }

    /// Returns a function that converts an I/O error of a scratch file. `action` is a
    /// verb. The message names the folder only, because the names of scratch files are
    /// meaningless to users.
    pub(super) fn failed(&self, action: &str) -> impl FnOnce(io::Error) -> Error {
        failed(self.place.as_deref(), action)
    }

    /// Creates a file in the folder, replacing an existing one.
    pub(super) fn file(&self, name: &str) -> Result<(File, PathBuf)> {
        let path = self.path(name);
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        let file = options.open(&path).map_err(self.failed("create"))?;
        Ok((file, path))
    }

    /// Removes a file in the folder, if it exists.
    pub(super) fn remove(&self, name: &str) {
        // If this fails, the file is removed with the folder.
        let _ = fs::remove_file(self.path(name));
    }
}

fn failed(place: Option<&Path>, action: &str) -> impl FnOnce(io::Error) -> Error {
    let in_repository = place.map(|place| format!("{action} a file in {}", place.display()));
    let elsewhere = temporary::failed(action);
    move |error| match in_repository {
        Some(action) => Error::io(action, error),
        None => elsewhere(error),
    }
}

fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let is_own = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified
            .ok()
            .and_then(|modified| SystemTime::now().duration_since(modified).ok());
        if is_own && age.is_some_and(|age| age > ABANDONED_AFTER) {
            // If the lock cannot be tested, another process may hold it, so the folder
            // stays.
            if let Ok(Some(lock)) = Lock::take(&entry.path().join(LOCK)) {
                drop(lock);
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}
