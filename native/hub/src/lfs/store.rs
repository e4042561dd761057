//! A store of objects without a server in front of it.

use std::fmt;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::meter::Stage;
use super::oid::Oid;
use zstn::internals::{is_store, store};
use zstn::source::HttpOptions;
use zstn::{Error, Location, Output, Result};

/// A folder, or one in an object store, with an object per name (`aa/bb/` and
/// the name, where `aabb` are its first digits).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store(Place);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Folder(PathBuf),
    /// The address of the folder, without a slash at the end.
    Objects(String),
}

impl Store {
    /// Takes the location of a store: a folder, or its address in an object
    /// store.
    ///
    /// # Errors
    /// [`Error::Usage`] for an address that objects cannot be stored at.
    pub fn new(location: &Location) -> Result<Self> {
        match location {
            Location::Path(path) => Ok(Self(Place::Folder(path.clone()))),
            // Objects there would be gone with the process.
            Location::Url(url) if url.to_ascii_lowercase().starts_with("memory:") => {
                Err(Error::Usage(format!(
                    "{url} keeps objects only as long as a process runs; name a folder, or one in \
                     an object store"
                )))
            }
            Location::Url(url) if is_store(url) => {
                store::address(url)?;
                Ok(Self(Place::Objects(url.trim_end_matches('/').into())))
            }
            _ => Err(Error::Usage(format!(
                "{location} cannot be a store of objects; name a folder, or one in an object \
                 store, such as s3://bucket/folder"
            ))),
        }
    }

    /// Returns the folder of a store in the file system.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        match &self.0 {
            Place::Folder(path) => Some(path),
            Place::Objects(_) => None,
        }
    }

    /// Refuses a folder that is not there. It is not created by the way: it may be
    /// on a disk that is not mounted.
    ///
    /// # Errors
    /// [`Error::Usage`].
    pub fn check_folder(&self) -> Result<()> {
        match self.folder() {
            Some(folder) if !folder.is_dir() => Err(Error::Usage(format!(
                "the store {self} is not there; mount it, or create the folder"
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses a store that cannot be asked for objects, so that this is said once
    /// and not for each of them.
    ///
    /// # Errors
    /// [`Store::check_folder`]; an object store that cannot be reached, or not with
    /// these credentials.
    pub(super) fn check(&self, http: &HttpOptions) -> Result<()> {
        self.check_folder()?;
        self.contains(&Oid::zero(), http).map(drop)
    }

    /// Returns where an object is or will be.
    pub(super) fn location(&self, oid: &Oid) -> Location {
        match &self.0 {
            Place::Folder(folder) => Location::Path(folder.join(oid.key())),
            Place::Objects(url) => Location::url(format!("{url}/{}", oid.key())),
        }
    }

    /// Returns whether there is such an object, whatever its content.
    ///
    /// # Errors
    /// A store that cannot be asked.
    pub(super) fn contains(&self, oid: &Oid, http: &HttpOptions) -> Result<bool> {
        match self.location(oid) {
            Location::Path(path) => path.try_exists().map_err(Error::file("look for", &path)),
            Location::Url(url) => store::exists(&url, http),
            _ => Ok(false),
        }
    }

    /// Stores an object, which appears when it is complete. One that is there
    /// stays, also if another process creates it meanwhile.
    ///
    /// # Errors
    /// I/O errors, and those of requests.
    pub(super) fn create(
        &self,
        oid: &Oid,
        stored: &File,
        len_bytes: u64,
        http: &HttpOptions,
        progress: &Stage<'_>,
    ) -> Result<()> {
        let output = match self.location(oid) {
            Location::Path(path) => {
                self.check_folder()?;
                create_parents(&path)?;
                Output::create_new(&path)
            }
            Location::Url(url) => Output::to_url(&url, false, http),
            Location::Pipe(_) | Location::Stdin => unreachable!("no store is standard input"),
        };
        let written = output.and_then(|mut output| {
            output.expect(len_bytes);
            let mut from = Watched {
                from: stored,
                read_bytes: 0,
                len_bytes,
                progress,
            };
            match output.copy(&mut from) {
                Ok(()) => output.finish(),
                Err(error) => Err(output.give_up(error)),
            }
        });
        match written {
            Err(Error::Exists { .. }) => Ok(()),
            written => written,
        }
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Folder(path) => path.display().fmt(f),
            Place::Objects(url) => url.fmt(f),
        }
    }
}

/// Creates the two folders for an object below the folder of the store, which has
/// to be there: its disk may have been unmounted meanwhile.
fn create_parents(path: &Path) -> Result<()> {
    let folders = path.ancestors().skip(1).take(2).collect::<Vec<_>>();
    for folder in folders.into_iter().rev() {
        match std::fs::create_dir(folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(Error::file("create", folder)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A file that reports what has been read of it.
struct Watched<'a> {
    from: &'a File,
    read_bytes: u64,
    len_bytes: u64,
    progress: &'a Stage<'a>,
}

impl std::io::Read for Watched<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let len = self.from.read(out)?;
        self.read_bytes += len as u64;
        self.progress.at(self.read_bytes, self.len_bytes);
        Ok(len)
    }
}
