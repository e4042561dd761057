//! The files of a sharded checkpoint, and their index.

use std::io::ErrorKind;
use std::path::Path;

use zstn_core::Rule;
use zstn_core::catalog::FileCatalog;
use zstn_core::catalog::Kind;
use zstn_core::container::safetensors::ShardIndex;

use super::{Shards, kind::ShardKind as _};
use crate::source::{ClosedFile, HttpOptions, Local, Location, Source};
use crate::{Error, Result};

/// The index of a sharded checkpoint.
#[derive(Debug, Clone)]
pub struct Index {
    /// Name of the index file.
    pub name: String,
    /// The location that the index was read from. If this version of the file has its
    /// own address, it is that address.
    pub location: Location,
    /// The bytes of the index file.
    pub text: Vec<u8>,
    /// The index, parsed from `text`.
    pub parsed: ShardIndex,
}

/// One file of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shard {
    /// The file name that the index lists.
    pub name: String,
    /// The location of the file.
    pub location: Location,
    /// The tensors that the index lists in this file, sorted; empty without an index.
    pub tensors: Vec<String>,
}

impl Shard {
    /// Returns the tensors that the index lists in this file but that its `catalog`
    /// does not contain.
    pub fn missing(&self, catalog: &FileCatalog) -> Vec<String> {
        let names = self.tensors.iter();
        let missing = names.filter(|tensor| catalog.find(tensor).is_err());
        missing.cloned().collect()
    }

    /// Opens the file for reading ranges; `http` applies to addresses.
    ///
    /// # Errors
    /// The errors of [`Location::open`], and [`Rule::ShardMissing`] if the local file
    /// does not exist.
    pub fn open(&self, http: &HttpOptions) -> Result<Box<dyn Source>> {
        self.check_there()?;
        self.location.open(http)
    }

    /// Opens the file like [`Shard::open`], but a local file only uses a descriptor
    /// while it is being read.
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

    /// Makes the whole file available on this machine; `http` applies to addresses.
    ///
    /// # Errors
    /// The errors of [`Location::fetch`], and [`Rule::ShardMissing`] if the local file
    /// does not exist.
    pub fn fetch(&self, http: &HttpOptions, progress: &dyn Fn(u64, Option<u64>)) -> Result<Local> {
        self.check_there()?;
        self.location.fetch(http, progress)
    }

    pub fn check_there(&self) -> Result<()> {
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

/// Returns the text of the original index from which the index at `path`, of packed
/// shards, was made.
pub fn unpacked_index(path: &Path) -> Result<Vec<u8>> {
    let location = Location::Path(path.into());
    let name = location.file_name().ok_or_else(|| missing(&location))?;
    let shards = Shards::of_index(&location, name, &HttpOptions::default())?;
    let index = shards.index().ok_or_else(|| missing(&location))?;
    Ok(Kind::Zstn.renamed_index(index, Kind::Safetensors)?.text)
}

/// Returns the text of the original index from which an index of packed shards with
/// this `name` and `text` was made.
pub fn unpacked_index_of(name: &str, text: Vec<u8>) -> Result<Vec<u8>> {
    let index = parse_index(name, text)?;
    Ok(Kind::Zstn.renamed_index(&index, Kind::Safetensors)?.text)
}

/// Returns the index of the packed shards for an index of plain shards with this `name`
/// and `text`: its text and the names of the packed shards.
///
/// # Errors
/// A text that is not an index, or an index that could not be restored.
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
