//! The files of a sharded checkpoint, their index, and the naming of both when packing
//! converts the shards to another kind (docs/formats/sharded.md 3).

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

use zstn_core::Rule;
use zstn_core::catalog::{
    FileCatalog, FileKind, IndexName, has_other_extension, packed_name, renamed,
};
use zstn_core::container::safetensors::{SHARD_INDEX_SUFFIX, ShardIndex};

use super::{PACKED, Shards};
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

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.location.fmt(f)
    }
}

/// Returns a file name without its extension.
pub(crate) fn stem(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

impl Shard {
    /// Returns the name of the file without its extension.
    pub(crate) fn stem(&self) -> &str {
        stem(&self.name)
    }

    /// Returns the file called `name` in the folder of `other`, a file of the same
    /// model. If a local file is missing and its packed file is there, returns that one.
    /// `None` if `other` has no folder.
    pub(crate) fn beside(other: &Location, name: &str) -> Option<Self> {
        let mut file = Self {
            name: name.into(),
            location: other.sibling(name)?,
            tensors: Vec::new(),
        };
        if let (Location::Path(path), Some(packed)) = (&file.location, file.packed())
            && !path.exists()
            && matches!(&packed, Location::Path(packed) if packed.is_file())
        {
            file.location = packed;
        }
        Some(file)
    }

    /// Returns the location of the packed file that restores this file, if it is of a
    /// format other than safetensors: `model.bin.zstn` for `model.bin`. Indices of such
    /// files are copied unchanged when their folder is packed.
    pub(crate) fn packed(&self) -> Option<Location> {
        let packed = packed_name(&self.name).filter(|_| has_other_extension(&self.name));
        self.location.sibling(&packed?)
    }

    /// Returns the tensors that the index lists in this file but that its `catalog`
    /// does not contain.
    pub fn missing(&self, catalog: &FileCatalog) -> Vec<String> {
        let names = self.tensors.iter();
        let missing = names.filter(|tensor| catalog.find(tensor).is_err());
        missing.cloned().collect()
    }

    /// Opens the file for reading ranges; `http` applies to addresses. If a server does
    /// not have the file, its packed file is opened.
    ///
    /// # Errors
    /// The errors of [`Location::open`], and [`Rule::ShardMissing`] if the local file
    /// does not exist.
    pub fn open(&self, http: &HttpOptions) -> Result<Box<dyn Source>> {
        self.check_there()?;
        match (self.location.open(http), self.packed()) {
            (Err(error), Some(packed)) if is_absent(&error) => match packed.open(http) {
                Err(other) if is_absent(&other) => Err(error),
                opened => opened,
            },
            (opened, _) => opened,
        }
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
            _ => self.open(http),
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

    /// Makes a packed file available for decoding it; a remote container arrives while it
    /// is decoded.
    ///
    /// # Errors
    /// The errors of [`Shard::fetch`].
    pub fn fetch_packed(
        &self,
        http: &HttpOptions,
        progress: &dyn Fn(u64, Option<u64>),
    ) -> Result<Local> {
        self.check_there()?;
        self.location.fetch_packed(http, progress)
    }

    pub fn check_there(&self) -> Result<()> {
        match &self.location {
            Location::Path(path) => match path.metadata() {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let detail = "this file is a part of the model, but it is not there; download \
                                  it as well";
                    let refusal = zstn_core::Error::malformed(Rule::ShardMissing, detail);
                    Err(Error::place(path.display())(refusal))
                }
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

/// Returns whether an error states that a server does not have the file.
pub(crate) fn is_absent(error: &Error) -> bool {
    matches!(
        error,
        Error::Http {
            status: Some(404 | 410),
            ..
        }
    )
}

/// Returns the text of the original index from which the index at `path`, of packed
/// shards, was made.
pub fn unpacked_index(path: &Path) -> Result<Vec<u8>> {
    let location = Location::Path(path.into());
    let name = location.file_name().ok_or_else(|| missing(&location))?;
    let shards = Shards::of_index(&location, name, &HttpOptions::default())?;
    let index = shards.index().ok_or_else(|| missing(&location))?;
    Ok(FileKind::Zstn
        .renamed_index(index, FileKind::Safetensors)?
        .text)
}

/// Returns the text of the original index from which an index of packed shards with
/// this `name` and `text` was made.
pub fn unpacked_index_of(name: &str, text: Vec<u8>) -> Result<Vec<u8>> {
    let index = parse_index(name, text)?;
    Ok(FileKind::Zstn
        .renamed_index(&index, FileKind::Safetensors)?
        .text)
}

/// Returns the index of the packed shards for an index of plain shards with this `name`
/// and `text`: its text and the names of the packed shards.
///
/// # Errors
/// A text that is not an index, or an index that could not be restored.
pub fn packed_index_of(name: &str, text: Vec<u8>) -> Result<(Vec<u8>, Vec<String>)> {
    let index = parse_index(name, text)?;
    let packed = FileKind::Safetensors.renamed_index(&index, FileKind::Zstn)?;
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

/// The naming of shards and indices, by the kind of the shards.
pub(super) trait ShardKind: Sized {
    /// Returns the kind of packed `shards`, according to the names of their files.
    fn of_packed(shards: &Shards) -> Result<Self>;

    /// Returns whether a shard with this name is of this kind.
    fn is_of(&self, name: &str) -> bool;

    /// Returns the name of a shard after its conversion to the kind `to`.
    fn renamed(self, name: &str, to: Self) -> Option<String>;

    /// Returns the index of the same shards after their conversion to the kind `to`.
    /// Refuses an index from which the original bytes could not be restored.
    fn renamed_index(self, index: &Index, to: Self) -> Result<Index>;
}

impl ShardKind for FileKind {
    fn of_packed(shards: &Shards) -> Result<Self> {
        let first = shards.files().first().map(|file| file.name.as_str());
        let kind = match shards.index() {
            Some(index) => IndexName::parse(&index.name).map(|index| index.kind()),
            None => {
                let mut kinds = PACKED.iter().copied();
                kinds.find(|kind| kind.is_of(first.unwrap_or_default()))
            }
        };
        kind.filter(|kind| PACKED.contains(kind)).ok_or_else(|| {
            Error::Usage(format!(
                "{} is not packed: its files are neither .zstn nor .z4dm",
                shards.location()
            ))
        })
    }

    fn is_of(&self, name: &str) -> bool {
        let stem = name.strip_suffix(self.extension());
        stem.is_some_and(|stem| stem.ends_with('.'))
    }

    fn renamed(self, name: &str, to: Self) -> Option<String> {
        renamed(name, self, to).filter(|_| self.is_of(name))
    }

    fn renamed_index(self, index: &Index, to: Self) -> Result<Index> {
        let refuse = |detail: String| {
            let refusal = zstn_core::Error::malformed(Rule::ShardRenaming, detail);
            Error::place(&index.location)(refusal)
        };
        let name = renamed(&index.name, self, to).filter(|_| !self.is_of(&index.name));
        let name = name.ok_or_else(|| {
            refuse(format!(
                "the name of the index is not that of an index of .{} files, such as \
                 model.{}{SHARD_INDEX_SUFFIX}; rename it",
                self.extension(),
                self.extension()
            ))
        })?;
        let [old, new] = [self, to].map(|kind| format!(".{}\"", kind.extension()));
        let text = replaced(&index.text, old.as_bytes(), new.as_bytes());
        if replaced(&text, new.as_bytes(), old.as_bytes()) != index.text {
            return Err(refuse(format!(
                "the index has names that end with .{} as well and could not be restored",
                to.extension()
            )));
        }
        let parsed = ShardIndex::parse(&text).map_err(Error::place(&index.location))?;
        let files = index.parsed.files();
        for (tensor, number) in index.parsed.weights() {
            let file = &files[number];
            let expected = self.renamed(file, to);
            let found = parsed.file_of(tensor).map(|file| &parsed.files()[file]);
            if expected.is_none() || found != expected.as_ref() {
                return Err(refuse(format!(
                    "the index lists the tensor {tensor} in {file}, and only names that end with \
                     .{}, written as they are, can be changed",
                    self.extension()
                )));
            }
        }
        Ok(Index {
            name,
            location: index.location.clone(),
            text,
            parsed,
        })
    }
}

fn replaced(text: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        if let Some(tail) = rest.strip_prefix(old) {
            result.extend_from_slice(new);
            rest = tail;
        } else {
            result.push(*first);
            rest = tail;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(name: &str, text: &str) -> Index {
        Index {
            name: name.into(),
            location: name.into(),
            text: text.into(),
            parsed: ShardIndex::parse(text.as_bytes()).unwrap(),
        }
    }

    #[test]
    fn an_index_goes_there_and_back() {
        let text = "{ \"metadata\": {\"from\":\"x.safetensors\"},\n \"weight_map\": \
                    {\"a\":\"m-1.safetensors\", \"b\":\"m-2.safetensors\"}}\n";
        let plain = index("m.safetensors.index.json", text);
        let packed = FileKind::Safetensors
            .renamed_index(&plain, FileKind::Zstn)
            .unwrap();
        assert_eq!(packed.name, "m.zstn.index.json");
        assert_eq!(packed.parsed.files(), ["m-1.zstn", "m-2.zstn"]);
        let back = FileKind::Zstn
            .renamed_index(&packed, FileKind::Safetensors)
            .unwrap();
        assert_eq!(back.name, plain.name);
        assert_eq!(back.text, plain.text);
    }

    #[test]
    fn an_index_that_would_not_come_back_is_refused() {
        let name = "m.safetensors.index.json";
        for (name, text) in [
            ("m.index.json", r#"{"weight_map":{"a":"m.safetensors"}}"#),
            (name, r#"{"weight_map":{"a":"m.bin"}}"#),
            (name, r#"{"weight_map":{"a":"m\u002esafetensors"}}"#),
            (name, r#"{"weight_map":{"a.safetensors":"m.safetensors"}}"#),
            (name, r#"{"x":"y.zstn","weight_map":{"a":"m.safetensors"}}"#),
        ] {
            let error = FileKind::Safetensors.renamed_index(&index(name, text), FileKind::Zstn);
            let error = error.expect_err(text);
            let rule = error.refusal().and_then(zstn_core::Error::rule);
            assert_eq!(rule, Some(Rule::ShardRenaming), "{text}");
        }
    }
}
