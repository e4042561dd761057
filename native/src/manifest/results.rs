//! The entries of finished work: `done/KEY.json` and `failed/KEY.json`.

use std::fs;
use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Done, Failed};
use crate::source::HttpOptions;
use crate::{Error, Location, Output, Result};

/// The longest entry that is read, in bytes.
const MAX_ENTRY_BYTES: u64 = 1 << 20;

/// A folder, local or in an object store, with the entries of finished work. A key
/// that is done stays done, whatever failed before or after.
#[derive(Debug, Clone)]
pub struct Results {
    root: Location,
    http: HttpOptions,
}

impl Results {
    /// Opens the folder at `root`; a local one is made if it is missing.
    ///
    /// # Errors
    /// A folder that cannot be made.
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

    /// Returns the location of a file in one of the folders.
    #[must_use]
    pub fn at(&self, folder: &str, name: &str) -> Location {
        match &self.root {
            Location::Path(path) => Location::Path(path.join(folder).join(name)),
            Location::Url(url) => {
                Location::url(format!("{}/{folder}/{name}", url.trim_end_matches('/')))
            }
            Location::Stdin => Location::Stdin,
        }
    }

    /// Returns the entry of work that is done.
    ///
    /// # Errors
    /// An entry that cannot be read or is not one.
    pub fn done(&self, key: &str) -> Result<Option<Done>> {
        self.read("done", key)
    }

    /// Returns the entry of work that failed last.
    ///
    /// # Errors
    /// An entry that cannot be read or is not one.
    pub fn failed(&self, key: &str) -> Result<Option<Failed>> {
        self.read("failed", key)
    }

    /// Writes the entry of work that is done. Returns `false` if somebody else has
    /// done the same work before; their entry stays.
    ///
    /// # Errors
    /// I/O errors.
    pub fn put_done(&self, done: &Done) -> Result<bool> {
        self.write("done", &done.row.key, done, false)
    }

    /// Writes the entry of work that failed, in the place of an earlier one.
    ///
    /// # Errors
    /// I/O errors.
    pub fn put_failed(&self, failed: &Failed) -> Result<()> {
        self.write("failed", &failed.row.key, failed, true)?;
        Ok(())
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

fn parse<T: DeserializeOwned>(location: &Location, bytes: &[u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| {
        let detail = format!("{location} is not an entry of results: {error}; remove it");
        Error::Usage(detail)
    })
}

/// Writes a JSON file, which appears when it is complete. Without `replace`,
/// returns `false` if there is one already.
pub(crate) fn write_json(
    location: &Location,
    value: &impl Serialize,
    replace: bool,
    http: &HttpOptions,
) -> Result<bool> {
    let text = serde_json::to_vec_pretty(value)
        .map_err(|error| Error::io(format!("write {location}"), std::io::Error::other(error)))?;
    let written = begin(location, replace, http).and_then(|mut output| {
        output.write(&text)?;
        output.write(b"\n")?;
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
        Location::Stdin => Err(Error::Usage("results need a folder".into())),
    }
}
