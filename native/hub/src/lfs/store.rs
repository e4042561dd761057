//! A store of objects that is accessed without a server: the IDs of its objects, and the
//! formats in which they are stored (docs/formats/lfs-objects.md).

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use sha2::{Digest as _, Sha256};
use zstn_core::container::zstn as packed;

use super::messages::Stage;
use crate::proof::hex;
use zstn::internals::{Output, is_store, regular, store};
use zstn::source::HttpOptions;
use zstn::{Error, Location, Result};

/// A folder, local or in an object store, with one file per object: `aa/bb/ID`, where
/// `aabb` are the first digits of the ID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store(Place);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Folder(PathBuf),
    /// The address of the folder, without a trailing slash.
    Objects(String),
}

impl Store {
    /// Returns the store at `location`, a folder or its address in an object store.
    ///
    /// # Errors
    /// [`Error::Usage`] for a location where objects cannot be stored.
    pub fn new(location: &Location) -> Result<Self> {
        match location {
            Location::Path(path) => Ok(Self(Place::Folder(path.clone()))),
            // Objects in memory would be lost with the process.
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

    /// Returns the folder of a local store.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        match &self.0 {
            Place::Folder(path) => Some(path),
            Place::Objects(_) => None,
        }
    }

    /// Checks that a local store's folder exists. It is never created automatically,
    /// because it may be on a disk that is not mounted.
    ///
    /// # Errors
    /// [`Error::Usage`] if the folder does not exist.
    pub fn check_folder(&self) -> Result<()> {
        match self.folder() {
            Some(folder) if !folder.is_dir() => Err(Error::Usage(format!(
                "the store {self} is not there; mount it, or create the folder"
            ))),
            _ => Ok(()),
        }
    }

    /// Checks that the store can be queried, so that the error is reported once instead
    /// of for every object.
    ///
    /// # Errors
    /// The errors of [`Store::check_folder`]; if an object store cannot be reached or
    /// denies access.
    pub(super) fn check(&self, http: &HttpOptions) -> Result<()> {
        self.check_folder()?;
        self.contains(&Oid::zero(), http).map(drop)
    }

    /// Returns the location of an object, whether it exists or not.
    pub(super) fn location(&self, oid: &Oid) -> Location {
        match &self.0 {
            Place::Folder(folder) => Location::Path(folder.join(oid.key())),
            Place::Objects(url) => Location::url(format!("{url}/{}", oid.key())),
        }
    }

    /// Returns whether an object exists, without checking its content.
    ///
    /// # Errors
    /// If the store cannot be queried.
    pub(super) fn contains(&self, oid: &Oid, http: &HttpOptions) -> Result<bool> {
        match self.location(oid) {
            Location::Path(path) => path.try_exists().map_err(Error::file("look for", &path)),
            Location::Url(url) => store::exists(&url, http),
            _ => Ok(false),
        }
    }

    /// Stores an object, which appears only when it is complete. An existing object is
    /// kept, even if another process creates it at the same time.
    ///
    /// # Errors
    /// I/O errors and errors of requests.
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

/// Creates the two folders for an object in a store. The store's own folder is not
/// created, because its disk may have been unmounted.
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

/// A file that reports how much of it has been read.
struct Watched<'a> {
    from: &'a File,
    read_bytes: u64,
    len_bytes: u64,
    progress: &'a Stage<'a>,
}

impl Read for Watched<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let len = self.from.read(out)?;
        self.read_bytes += len as u64;
        self.progress.at(self.read_bytes, self.len_bytes);
        Ok(len)
    }
}

/// Number of bytes that are hashed at a time.
const PIECE_BYTES: usize = 1 << 20;

/// The ID of an object: the SHA-256 of the original file, as 64 lower-case hexadecimal
/// digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Oid(String);

impl Oid {
    /// Returns the ID of all zeros, which no object has.
    pub(super) fn zero() -> Self {
        Self("0".repeat(64))
    }

    /// Returns the hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the path of the object in a store, `aa/bb/ID`, where `aabb` are the
    /// first four digits of the ID.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{}/{}", &self.0[..2], &self.0[2..4], self.0)
    }

    /// Returns the ID of a file's content.
    ///
    /// # Errors
    /// I/O errors.
    pub fn of_file(path: &Path) -> Result<Self> {
        let fail = || Error::file("read", path);
        let mut file = regular::open(path).map_err(|error| fail()(error))?;
        let mut hash = Sha256::new();
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match file.read(&mut piece) {
                Ok(0) => break,
                Ok(len) => hash.update(&piece[..len]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(fail()(error)),
            }
        }
        Ok(Self(hex(&hash.finalize())))
    }
}

impl FromStr for Oid {
    type Err = Error;

    /// Parses 64 lower-case digits, as git-lfs writes them. Other text is rejected,
    /// because it could form a path that leads out of the store.
    fn from_str(text: &str) -> Result<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match text.len() == 64 && text.bytes().all(is_digit) {
            true => Ok(Self(text.into())),
            false => Err(Error::Usage(
                "the name of an object has to be a SHA-256 in 64 hexadecimal digits".into(),
            )),
        }
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Precedes the bytes of an object that would otherwise be mistaken for a packed or
/// enveloped one.
pub(super) const ENVELOPE: [u8; 8] = *b"ZLFS\x01\0\0\0";

/// The magic of envelopes of all versions.
const ENVELOPE_MAGIC: &[u8] = b"ZLFS";

/// Number of leading bytes that identify the format.
pub(super) const HEAD_BYTES: usize = ENVELOPE.len();

/// The format of a stored object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoredFormat {
    /// A ZSTN file, which unpacks to the object.
    Packed,
    /// The unchanged bytes of the object.
    Plain,
    /// [`ENVELOPE`], followed by the bytes of the object.
    Enveloped,
}

impl StoredFormat {
    /// Returns the format of a stored object from its first [`HEAD_BYTES`] bytes, or
    /// from all bytes if it is shorter.
    ///
    /// # Errors
    /// If the envelope is of a later version.
    pub(super) fn of(head: &[u8]) -> Result<Self> {
        if head.starts_with(&packed::MAGIC) {
            return Ok(Self::Packed);
        }
        if head.starts_with(&ENVELOPE) {
            return Ok(Self::Enveloped);
        }
        if head.starts_with(ENVELOPE_MAGIC) {
            return Err(Error::Usage(
                "it is in a format that this version of zstn does not know; use a newer one".into(),
            ));
        }
        Ok(Self::Plain)
    }

    /// Returns whether an unpacked object that begins with these bytes has to be stored
    /// in an envelope.
    pub(super) fn needs_envelope(head: &[u8]) -> bool {
        head.starts_with(&packed::MAGIC) || head.starts_with(ENVELOPE_MAGIC)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bytes_are_mistaken_for_a_format() {
        for bytes in [
            &b"ZSTN"[..],
            b"ZSTN\x01rest",
            b"ZLFS",
            b"ZLFS\x01\0\0\0",
            b"ZLFSx",
        ] {
            assert!(StoredFormat::needs_envelope(bytes));
            let stored = [&ENVELOPE, bytes].concat();
            assert_eq!(StoredFormat::of(&stored).unwrap(), StoredFormat::Enveloped);
        }
        for bytes in [&b""[..], b"ZST", b"ZLF", b"{}", b"version 1"] {
            assert!(!StoredFormat::needs_envelope(bytes));
            assert_eq!(StoredFormat::of(bytes).unwrap(), StoredFormat::Plain);
        }
        assert!(StoredFormat::of(b"ZLFS\x02\0\0\0").is_err());
    }
}
