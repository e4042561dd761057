//! Output folders, on disk and in object stores.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
#[cfg(feature = "store")]
use std::sync::{Mutex, PoisonError};

#[cfg(feature = "store")]
use zstn_store::{Address, FolderClaim};

use super::staging::{Staging, folder_exists};
use super::{Mode, Output, fallbacks};
use crate::source::{HttpOptions, Location};
#[cfg(feature = "store")]
use crate::source::{is_store, store};
use crate::{Error, Result};

/// The location of an output folder.
#[derive(Debug)]
pub(crate) enum FolderPlace {
    Path(PathBuf),
    Url(String),
}

/// A folder that is being written. On disk it appears under its final name when it is
/// complete. In an object store its files appear one by one; the index, by which
/// readers find the shards, is written last.
pub(crate) enum OutputFolder {
    Local(LocalFolder),
    #[cfg(feature = "store")]
    Stored(Box<StoredFolder>),
}

impl OutputFolder {
    /// Begins the folder at `place`, which must be missing or empty: other folders are
    /// never replaced. In an object store it may contain the objects of an earlier,
    /// interrupted attempt.
    pub(crate) fn create(place: &FolderPlace, http: &HttpOptions) -> Result<Self> {
        match place {
            FolderPlace::Path(target) => LocalFolder::create(target).map(Self::Local),
            #[cfg(feature = "store")]
            FolderPlace::Url(url) if is_store(url) => {
                let folder = StoredFolder::create(url, http)?;
                Ok(Self::Stored(Box::new(folder)))
            }
            FolderPlace::Url(url) => {
                let _ = http;
                Err(not_a_folder(url))
            }
        }
    }

    /// Refuses an address to which no folder can be written, before there is anything
    /// to write.
    pub(crate) fn check(url: &str, http: &HttpOptions) -> Result<()> {
        #[cfg(feature = "store")]
        if is_store(url) {
            return StoredFolder::check(url, http);
        }
        let _ = http;
        Err(not_a_folder(url))
    }

    /// Begins the file at `path` inside the folder.
    pub(crate) fn file(&self, path: &Path) -> Result<Output<'static>> {
        match self {
            Self::Local(folder) => folder.file(path),
            #[cfg(feature = "store")]
            Self::Stored(folder) => folder.file(path),
        }
    }

    /// Gives the folder the permissions of the input folder at `location`, if both are
    /// on disk.
    pub(crate) fn like(&mut self, location: &Location) {
        match (self, location) {
            (Self::Local(folder), Location::Path(path)) if path.is_dir() => folder.like(path),
            _ => {}
        }
    }

    /// Creates the subfolder at `path` with these permissions; its parent must exist.
    pub(crate) fn make(&self, path: &Path, mode: &Mode) -> Result<()> {
        match self {
            Self::Local(folder) => folder.make(path, mode),
            // An object store has no folders, only object names with slashes.
            #[cfg(feature = "store")]
            Self::Stored(_) => Ok(()),
        }
    }

    /// Writes the bytes of `from` to a new file at `path` with these permissions.
    pub(crate) fn write(&self, path: impl AsRef<Path>, from: impl Read, mode: &Mode) -> Result<()> {
        match self {
            Self::Local(folder) => folder.write(path.as_ref(), from, mode),
            #[cfg(feature = "store")]
            Self::Stored(folder) => folder.write(path.as_ref(), from),
        }
    }

    /// Abandons the folder because of `error`, which it returns. In an object store the
    /// files stay for another attempt, unless that would fail for the same reason.
    fn give_up(self, error: Error) -> Error {
        match self {
            #[cfg(feature = "store")]
            Self::Stored(folder) if !error.is_external() => folder.discard(),
            _ => {}
        }
        error
    }

    /// Completes the folder if `written` is `Ok`, and abandons it otherwise.
    pub(crate) fn end<T>(self, written: Result<T>) -> Result<T> {
        match written {
            Ok(result) => self.finish().map(|()| result),
            Err(error) => Err(self.give_up(error)),
        }
    }

    /// Makes the folder durable and gives it its final name.
    pub(crate) fn finish(self) -> Result<()> {
        match self {
            Self::Local(folder) => folder.finish(),
            #[cfg(feature = "store")]
            Self::Stored(folder) => folder.finish(),
        }
    }
}

fn not_a_folder(url: &str) -> Error {
    Error::Usage(format!(
        "{url}: the result is a folder of files; name a local one, or one in an object store"
    ))
}

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
    fn create(target: &Path) -> Result<Self> {
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
    fn like(&mut self, path: &Path) {
        self.mode = Mode::of(path);
    }

    /// Begins the file at `path`.
    fn file(&self, path: &Path) -> Result<Output<'static>> {
        Output::create(&self.staging.path(path))
    }

    /// Creates the subfolder at `path` with these permissions; its parent must exist.
    fn make(&self, path: &Path, mode: &Mode) -> Result<()> {
        let full = self.target.join(path);
        let own = self.staging.path(path);
        fs::create_dir(&own).map_err(Error::file("make the folder", &full))?;
        mode.give_folder(&own);
        Ok(())
    }

    /// Writes the bytes of `from` to a new file at `path` with these permissions.
    fn write(&self, path: &Path, mut from: impl Read, mode: &Mode) -> Result<()> {
        let fail = |error| {
            let path = self.target.join(path);
            Error::io(format!("write {}", path.display()), error)
        };
        let mut file = File::create_new(self.staging.path(path)).map_err(fail)?;
        io::copy(&mut from, &mut file).map_err(fail)?;
        mode.give(&file, None);
        fallbacks::sync(&file).map_err(fail)
    }

    /// Makes the folder durable and renames it to its final name.
    fn finish(self) -> Result<()> {
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

/// Objects with a common name prefix. A claim keeps other writers away. If the folder
/// is dropped, the claim stays with the objects, so that another attempt can continue.
#[cfg(feature = "store")]
pub(crate) struct StoredFolder {
    url: String,
    http: HttpOptions,
    claim: FolderClaim,
    /// The addresses of the objects that this process has begun to write.
    written: Mutex<Vec<Address>>,
}

#[cfg(feature = "store")]
impl StoredFolder {
    /// Claims the folder at `url`, which must be empty or contain only the objects of
    /// an earlier attempt by this user on this machine.
    fn create(url: &str, http: &HttpOptions) -> Result<Self> {
        let url = url.trim_end_matches('/');
        let state = zstn_store::default_journal_folder();
        let address = store::address(url)?;
        let claim = FolderClaim::take(&address, state.as_deref(), &store::options(http))?;
        Ok(Self {
            url: url.into(),
            http: http.clone(),
            claim,
            written: Mutex::default(),
        })
    }

    /// Refuses a folder that cannot be claimed. An empty folder is left empty.
    fn check(url: &str, http: &HttpOptions) -> Result<()> {
        let folder = Self::create(url, http)?;
        match folder.claim.is_continued() {
            true => Ok(()),
            false => folder.finish(),
        }
    }

    /// Begins the file at `path`. It only replaces an object if this attempt continues
    /// an earlier one: the folder contains no objects of other writers, and none can
    /// appear there unnoticed.
    fn file(&self, path: &Path) -> Result<Output<'static>> {
        let url = format!("{}/{}", self.url, key(path));
        let output = Output::to_url(&url, self.claim.is_continued(), &self.http)?;
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        written.push(store::address(&url)?);
        Ok(output)
    }

    fn write(&self, path: &Path, mut from: impl Read) -> Result<()> {
        let mut output = self.file(path)?;
        output.copy(&mut from)?;
        output.finish()
    }

    /// Releases the claim on the complete folder.
    fn finish(self) -> Result<()> {
        Ok(self.claim.release()?)
    }

    /// Deletes the objects that were written, as far as possible.
    fn discard(self) {
        let written = self.written.into_inner();
        let written = written.unwrap_or_else(PoisonError::into_inner);
        // The caller reports the error that led to this call. Objects that cannot be
        // deleted have no index, and another attempt can remove them.
        let _ = self.claim.discard(&written);
    }
}

/// Returns the object name, relative to the folder, for a path.
#[cfg(feature = "store")]
fn key(path: &Path) -> String {
    let parts = path
        .components()
        .map(|part| part.as_os_str().to_string_lossy());
    parts.collect::<Vec<_>>().join("/")
}
