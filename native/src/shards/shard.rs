//! One file of a checkpoint in several, and their index.

use std::io::ErrorKind;
use std::path::Path;

use zstn_core::Rule;
use zstn_core::catalog::FileCatalog;
use zstn_core::catalog::Kind;
use zstn_core::container::safetensors::ShardIndex;

use super::{Shards, kind::ShardKind as _};
use crate::source::{ClosedFile, HttpOptions, Local, Location, Source};
use crate::{Error, Result};

/// The index of a checkpoint in several files.
#[derive(Debug, Clone)]
pub struct Index {
    /// Name of its file.
    pub name: String,
    /// The location it was read from, that of this version if it has one of its
    /// own.
    pub location: Location,
    /// Its bytes.
    pub text: Vec<u8>,
    /// The parsed index.
    pub parsed: ShardIndex,
}

/// One of the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    /// Name of the file.
    pub name: String,
    /// The location of the file.
    pub location: Location,
    /// Tensors that the index says it holds, sorted; none without an index.
    pub tensors: Vec<String>,
}

impl Shard {
    /// Returns the tensors that the index says are in the file, which has this
    /// catalog, and are not.
    pub fn missing(&self, catalog: &FileCatalog) -> Vec<String> {
        let names = self.tensors.iter();
        let missing = names.filter(|tensor| catalog.find(tensor).is_err());
        missing.cloned().collect()
    }

    /// Opens the file for reading parts; `http` is for an address.
    ///
    /// # Errors
    /// Those of [`Location::open`], and [`Rule::ShardMissing`] if the local file
    /// does not exist.
    pub fn open(&self, http: &HttpOptions) -> Result<Box<dyn Source>> {
        self.check_there()?;
        self.location.open(http)
    }

    /// Opens the file like [`Shard::open`]; a local one has a descriptor only while it
    /// is read.
    ///
    /// # Errors
    /// The errors of [`Shard::open`].
    pub fn open_closed(&self, http: &HttpOptions) -> Result<Box<dyn Source>> {
        self.check_there()?;
        match &self.location {
            Location::Path(path) => Ok(Box::new(ClosedFile::open(path)?)),
            location => location.open(http),
        }
    }

    /// Makes all of the file available on this machine; `http` is for an address.
    ///
    /// # Errors
    /// The errors of [`Location::fetch`], and [`Rule::ShardMissing`] if the local file
    /// does not exist.
    pub fn fetch(&self, http: &HttpOptions, progress: &dyn Fn(u64, Option<u64>)) -> Result<Local> {
        self.check_there()?;
        self.location.fetch(http, progress)
    }

    fn check_there(&self) -> Result<()> {
        match &self.location {
            Location::Path(path) => match path.metadata() {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let detail = "the index of the shards names this file, but it is not there; \
                                  download it as well";
                    let refusal = zstn_core::Error::malformed(Rule::ShardMissing, detail);
                    Err(Error::place(path.display())(refusal))
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

/// Returns the text of the index that the one at `path`, of packed shards, was
/// made from.
pub fn unpacked_index(path: &Path) -> Result<Vec<u8>> {
    let location = Location::Path(path.into());
    let name = location.file_name().ok_or_else(|| missing(&location))?;
    let shards = Shards::of_index(&location, name, &HttpOptions::default())?;
    let index = shards.index().ok_or_else(|| missing(&location))?;
    Ok(Kind::Zstn.renamed_index(index, Kind::Safetensors)?.text)
}

/// Returns the text of the index that the one called `name`, of packed shards and
/// with this text, was made from.
pub fn unpacked_index_of(name: &str, text: Vec<u8>) -> Result<Vec<u8>> {
    let index = parse_index(name, text)?;
    Ok(Kind::Zstn.renamed_index(&index, Kind::Safetensors)?.text)
}

/// Returns the index called `name`, of shards with this text, as it is next to
/// their packed files: its text, and the names of these.
///
/// # Errors
/// A text that is not an index, or that could not be restored.
pub fn packed_index_of(name: &str, text: Vec<u8>) -> Result<(Vec<u8>, Vec<String>)> {
    let index = parse_index(name, text)?;
    let packed = Kind::Safetensors.renamed_index(&index, Kind::Zstn)?;
    Ok((packed.text, packed.parsed.files().to_vec()))
}

fn parse_index(name: &str, text: Vec<u8>) -> Result<Index> {
    let parsed = ShardIndex::parse(&text).map_err(Error::place(name))?;
    let file_name = name.rsplit('/').next().unwrap_or_default();
    Ok(Index {
        name: file_name.into(),
        location: Location::from(name),
        text,
        parsed,
    })
}

pub(super) fn missing(location: &Location) -> Error {
    Error::io(format!("open {location}"), ErrorKind::NotFound.into())
}
