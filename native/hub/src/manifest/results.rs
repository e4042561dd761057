//! A folder of results: packed files, and the entries `done/KEY.json` and
//! `failed/KEY.json`.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Row;
use super::plan::is_digest;
use zstn::internals::{Output, store};
use zstn::source::HttpOptions;
use zstn::{Error, Location, Result};

/// Maximum length of an entry, in bytes.
const MAX_ENTRY_BYTES: u64 = 1 << 20;

/// A file in a folder of results.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct ListedResult {
    /// Name in the folder.
    pub name: String,
    /// Length in bytes.
    pub len_bytes: u64,
    /// Time since it was last modified; `None` in an object store.
    pub age: Option<Duration>,
}

/// A local or object-store folder with packed files and their entries. A key with an
/// entry in `done` is done, even if it also has one in `failed`.
#[derive(Debug, Clone)]
pub struct Results {
    root: Location,
    http: HttpOptions,
}

impl Results {
    /// Opens the folder at `root`. A local folder is created if it does not exist.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn open(root: &Location, http: &HttpOptions) -> Result<Self> {
        let results = Self {
            root: root.clone(),
            http: http.clone(),
        };
        for folder in ["done", "failed", "packed"] {
            if let Location::Path(path) = results.at(folder, "KEY") {
                let folder = path.parent().map(PathBuf::from).unwrap_or_default();
                fs::create_dir_all(&folder).map_err(Error::file("make the folder", &folder))?;
            }
        }
        Ok(results)
    }

    /// Opens a folder that contains results, without creating anything.
    ///
    /// # Errors
    /// [`Error::Usage`] for a folder without results; if a store cannot be read.
    pub fn existing(root: &Location, http: &HttpOptions) -> Result<Self> {
        let results = Self {
            root: root.clone(),
            http: http.clone(),
        };
        let mut has_any = false;
        for folder in ["done", "failed", "packed"] {
            has_any |= match results.at(folder, "") {
                // Empty folders count, because a run that has just begun has created
                // them.
                Location::Path(path) => path.is_dir(),
                Location::Url(url) => !has_any && !list_stored(&url, http)?.is_empty(),
                Location::Pipe(_) | Location::Stdin => false,
            };
        }
        match has_any {
            true => Ok(results),
            false => Err(Error::Usage(format!(
                "there are no results in {root}; correct the name, or run a plan with it first"
            ))),
        }
    }

    /// Returns the location of a file in one of the folders.
    #[must_use]
    pub fn at(&self, folder: &str, name: &str) -> Location {
        match &self.root {
            Location::Path(path) => Location::Path(path.join(folder).join(name)),
            Location::Url(url) => {
                Location::url(format!("{}/{folder}/{name}", url.trim_end_matches('/')))
            }
            other @ (Location::Pipe(_) | Location::Stdin) => other.clone(),
        }
    }

    /// Returns the `done` entry of a key, if it exists.
    ///
    /// # Errors
    /// If the entry cannot be read or is malformed.
    pub fn done(&self, key: &str) -> Result<Option<Done>> {
        self.read("done", key)
    }

    /// Returns the `failed` entry of a key, if it exists.
    ///
    /// # Errors
    /// If the entry cannot be read or is malformed.
    pub fn failed(&self, key: &str) -> Result<Option<Failed>> {
        self.read("failed", key)
    }

    /// Writes a `done` entry. Returns false if one already exists, which is kept.
    ///
    /// # Errors
    /// I/O errors and errors of requests.
    pub fn put_done(&self, done: &Done) -> Result<bool> {
        self.write("done", &done.row.key, done, false)
    }

    /// Replaces a `done` entry that describes another packed file.
    ///
    /// # Errors
    /// I/O errors and errors of requests.
    pub fn replace_done(&self, done: &Done) -> Result<()> {
        self.write("done", &done.row.key, done, true)?;
        Ok(())
    }

    /// Returns the `done` entry of a row if it is valid and the packed file exists with
    /// the recorded length. The packed file is not read.
    ///
    /// # Errors
    /// If the entry is malformed or the store cannot be read.
    pub fn packed(&self, row: &Row) -> Result<Option<Done>> {
        let Some(done) = self.done(&row.key)? else {
            return Ok(None);
        };
        let is_sound = done.is_of(row) && self.has_packed(&done)?;
        Ok(is_sound.then_some(done))
    }

    /// Returns whether the packed file of an entry exists with the recorded length.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(crate) fn has_packed(&self, done: &Done) -> Result<bool> {
        let opened = match self.at("packed", &done.row.packed_name()) {
            Location::Path(path) => match fs::metadata(&path) {
                Ok(metadata) => Ok(Some(metadata)
                    .filter(fs::Metadata::is_file)
                    .map(|m| m.len())),
                Err(error) => Err(Error::file("read", &path)(error)),
            },
            location => location.open(&self.http).map(|s| Some(s.len_bytes())),
        };
        match opened {
            Ok(len_bytes) => Ok(len_bytes == Some(done.packed_bytes)),
            Err(Error::Http {
                status: Some(404 | 410),
                ..
            }) => Ok(false),
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes a `failed` entry, replacing an earlier one.
    ///
    /// # Errors
    /// I/O errors and errors of requests.
    pub fn put_failed(&self, failed: &Failed) -> Result<()> {
        self.write("failed", &failed.row.key, failed, true)?;
        Ok(())
    }

    /// Reads a small file in one of the folders, if it exists.
    ///
    /// # Errors
    /// I/O errors; if the file is longer than `max_bytes`.
    pub fn read_file(&self, folder: &str, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>> {
        self.at(folder, name)
            .read_small_if_any(&self.http, max_bytes)
    }

    /// Creates a small file in one of the folders; it appears only when it is complete.
    /// Returns false if the file already exists.
    ///
    /// # Errors
    /// I/O errors and errors of requests.
    pub fn create_file(&self, folder: &str, name: &str, bytes: &[u8]) -> Result<bool> {
        let location = self.at(folder, name);
        if let Location::Path(path) = &location {
            let folder = path.parent().map(PathBuf::from).unwrap_or_default();
            fs::create_dir_all(&folder).map_err(Error::file("make the folder", &folder))?;
        }
        write(&location, bytes, false, &self.http)
    }

    /// Returns the files in one of the folders, sorted by name; none if there is no such
    /// folder.
    ///
    /// # Errors
    /// I/O errors and errors of requests.
    pub fn list(&self, folder: &str) -> Result<Vec<ListedResult>> {
        match self.at(folder, "") {
            Location::Path(path) => list_local(&path),
            Location::Url(url) => list_stored(&url, &self.http),
            Location::Pipe(_) | Location::Stdin => Ok(Vec::new()),
        }
    }

    /// Removes a file from one of the folders, if it exists.
    ///
    /// # Errors
    /// I/O errors and errors of requests.
    pub fn remove(&self, folder: &str, name: &str) -> Result<()> {
        match self.at(folder, name) {
            Location::Path(path) => match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    Err(Error::file("remove", &path)(error))
                }
                _ => Ok(()),
            },
            Location::Url(url) => remove_stored(&url, &self.http),
            Location::Pipe(_) | Location::Stdin => Ok(()),
        }
    }

    fn read<T: DeserializeOwned>(&self, folder: &str, key: &str) -> Result<Option<T>> {
        let location = self.at(folder, &format!("{key}.json"));
        let bytes = location.read_small_if_any(&self.http, MAX_ENTRY_BYTES)?;
        bytes.map_or(Ok(None), |bytes| parse(&location, &bytes))
    }

    fn write(
        &self,
        folder: &str,
        key: &str,
        entry: &impl Serialize,
        replace: bool,
    ) -> Result<bool> {
        let location = self.at(folder, &format!("{key}.json"));
        write_json(&location, entry, replace, &self.http)
    }
}

fn list_local(folder: &Path) -> Result<Vec<ListedResult>> {
    let failed = |error| Error::file("read the folder", folder)(error);
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let metadata = match entry.metadata() {
            Ok(metadata) if metadata.is_file() => metadata,
            // The file was removed meanwhile, or is not a regular file.
            _ => continue,
        };
        found.push(ListedResult {
            name: entry.file_name().to_string_lossy().into_owned(),
            len_bytes: metadata.len(),
            age: metadata
                .modified()
                .ok()
                .and_then(|time| time.elapsed().ok()),
        });
    }
    found.sort();
    Ok(found)
}

fn list_stored(url: &str, http: &HttpOptions) -> Result<Vec<ListedResult>> {
    let listed = store::list_top(url, http)?.into_iter();
    let file = |object: zstn_store::ListedObject| ListedResult {
        name: object.path,
        len_bytes: object.len_bytes,
        age: None,
    };
    Ok(listed.map(file).collect())
}

fn remove_stored(url: &str, http: &HttpOptions) -> Result<()> {
    store::delete(url, http)
}

fn parse<T: DeserializeOwned>(location: &Location, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| {
        let detail = format!("{location} is not an entry of results: {error}; remove it");
        Error::Usage(detail)
    })
}

/// Writes a JSON file, which appears only when it is complete. Without `replace`,
/// returns false if the file already exists.
pub(crate) fn write_json(
    location: &Location,
    value: &impl Serialize,
    replace: bool,
    http: &HttpOptions,
) -> Result<bool> {
    let mut text = serde_json::to_vec_pretty(value)
        .map_err(|error| Error::io(format!("write {location}"), std::io::Error::other(error)))?;
    text.push(b'\n');
    write(location, &text, replace, http)
}

fn write(location: &Location, bytes: &[u8], replace: bool, http: &HttpOptions) -> Result<bool> {
    let written = begin(location, replace, http).and_then(|mut output| {
        output.write(bytes)?;
        output.finish()
    });
    match written {
        Ok(()) => Ok(true),
        Err(Error::Exists { .. }) if !replace => Ok(false),
        Err(error) => Err(error),
    }
}

fn begin(location: &Location, replace: bool, http: &HttpOptions) -> Result<Output<'static>> {
    match location {
        Location::Path(path) if replace => Output::create(path),
        Location::Path(path) => Output::create_new(path),
        Location::Url(url) => Output::to_url(url, replace, http),
        Location::Pipe(_) | Location::Stdin => Err(Error::Usage("results need a folder".into())),
    }
}

/// The entry of a file that was packed and verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Done {
    /// The row that was packed. Other rows with the same key may name other repositories
    /// and paths.
    #[serde(flatten)]
    pub row: Row,
    /// Length of the packed file in bytes.
    #[serde(rename = "packed_size")]
    pub packed_bytes: u64,
    /// SHA-256 of the packed file, in lower-case hex.
    pub packed_sha256: String,
}

impl Done {
    /// Returns the entry for a row.
    #[must_use]
    pub fn new(row: Row, packed_bytes: u64, packed_sha256: String) -> Self {
        Self {
            row,
            packed_bytes,
            packed_sha256,
        }
    }

    /// Returns whether this entry is valid for the row: it has the same key, content
    /// and packed name, and a well-formed digest of the packed file.
    #[must_use]
    pub fn is_of(&self, row: &Row) -> bool {
        self.row.key == row.key
            && self.row.sha256 == row.sha256
            && self.row.packed_name() == row.packed_name()
            && is_digest(&self.packed_sha256)
    }
}

/// The class of a failure, which decides about another attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// The reason is transient: the network, a server, the disk.
    Retry,
    /// Another attempt would fail as well: the content of the file is not what its name
    /// states, it grows when it is packed, or it may not be read.
    Refused,
}

/// The entry of a file that was not packed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failed {
    /// The row of the plan.
    #[serde(flatten)]
    pub row: Row,
    /// The class of the failure.
    pub class: Class,
    /// The reason, as a sentence.
    pub reason: String,
}

impl Failed {
    /// Returns the entry for a row.
    #[must_use]
    pub fn new(row: Row, class: Class, reason: String) -> Self {
        Self { row, class, reason }
    }
}
