//! The input of the functions that work on whole checkpoints.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Feed, FileSource, HttpOptions, Local, Location, Remote, Source};
use crate::output::temporary;
use crate::{Error, Progress, Result};

/// A checkpoint to work on: a [`Location`], a [`Source`] or bytes in memory.
///
/// Paths convert into inputs, and so does a [`Location`], for an address or
/// standard input. A path may be that of a file, of the index of a checkpoint
/// in several files, or of a folder that holds one; an address may be that of a
/// file or an index. What a file is, its bytes say.
///
/// Reading single tensors takes parts of an input. Work on all of it reads
/// local files by range and copies what comes from elsewhere into a temporary file
/// first;
/// [`pack`](crate::pack()) works on a safetensors file while it comes, and the
/// copy is of a few tensors at a time (on Linux; elsewhere, and against a base,
/// of all).
///
/// ```
/// use zstn::{Input, Location};
///
/// let inputs = [
///     Input::from("model.safetensors"),
///     Location::url("https://example.org/model.safetensors.index.json").into(),
///     vec![0; 8].into(),
/// ];
/// assert_eq!(inputs[0].to_string(), "model.safetensors");
/// ```
#[derive(Clone)]
pub struct Input(Kind);

#[derive(Clone)]
enum Kind {
    Location(Location),
    Source(Arc<dyn Source>),
    Reader(Arc<Once>),
    Local(Arc<Local>),
}

/// A reader that is used once.
struct Once {
    name: String,
    from: Mutex<Option<Box<dyn Read + Send>>>,
}

impl Once {
    fn feed(&self) -> Result<Feed> {
        let mut from = self.from.lock().unwrap_or_else(PoisonError::into_inner);
        match from.take() {
            Some(from) => Ok(Feed::stream(&self.name, from)),
            None => Err(Error::Usage(format!(
                "{} has been read already; a reader serves as an input once",
                self.name
            ))),
        }
    }

    fn fetch(&self, progress: &dyn Fn(u64, Option<u64>)) -> Result<Local> {
        self.feed()?.copy(temporary::create()?, 0, progress)
    }
}

impl Input {
    /// Takes what `source` reads.
    pub fn source(source: impl Source + 'static) -> Self {
        Self(Kind::Source(Arc::new(source)))
    }

    /// Takes the bytes that `from` reads. Packing needs no copy of all of them.
    /// The input and its clones serve once together. Error messages call it
    /// `name`.
    pub fn reader(name: impl Into<String>, from: impl Read + Send + 'static) -> Self {
        Self(Kind::Reader(Arc::new(Once {
            name: name.into(),
            from: Mutex::new(Some(Box::new(from))),
        })))
    }

    /// Takes bytes in memory. Error messages call them `name`.
    pub fn bytes(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Local::of_bytes(name.into(), bytes.into()).into()
    }

    /// Returns where it is, unless it is a source or in memory.
    #[doc(hidden)]
    pub fn location(&self) -> Option<&Location> {
        match &self.0 {
            Kind::Location(location) => Some(location),
            _ => None,
        }
    }

    /// Returns an input that can be opened more than once: standard input and
    /// pipes are read to their end.
    pub(crate) fn rewindable(&self, http: &HttpOptions) -> Result<Self> {
        match &self.0 {
            Kind::Location(location) if location.is_read_once() => {
                Ok(location.fetch(http, &|_, _| ())?.into())
            }
            Kind::Reader(reader) => Ok(reader.fetch(&|_, _| ())?.into()),
            _ => Ok(self.clone()),
        }
    }

    /// Returns whether its files are on a server, or in another remote source.
    pub(crate) fn is_remote(&self) -> bool {
        match &self.0 {
            Kind::Location(location) => location.is_remote(),
            Kind::Source(source) => source.is_remote(),
            Kind::Reader(_) | Kind::Local(_) => false,
        }
    }

    /// Opens it for reading parts.
    pub(crate) fn open(&self, http: &HttpOptions) -> Result<Box<dyn Source>> {
        Ok(match &self.0 {
            Kind::Location(location) => location.open(http)?,
            Kind::Source(source) => Box::new(source.clone()),
            Kind::Reader(reader) => Box::new(reader.fetch(&|_, _| ())?),
            Kind::Local(local) => Box::new(local.clone()),
        })
    }

    /// Makes all of it available on this machine.
    pub(crate) fn fetch(&self, http: &HttpOptions, progress: &dyn Progress) -> Result<Arc<Local>> {
        let fetching = |so_far, len| progress.fetching(so_far, len);
        match &self.0 {
            Kind::Location(location) => location.fetch(http, &fetching).map(Arc::new),
            Kind::Source(source) => {
                let mut feed = Feed::source(source.clone());
                let copy = feed.copy(temporary::create()?, 0, &fetching);
                copy.map(Arc::new)
            }
            Kind::Reader(reader) => reader.fetch(&fetching).map(Arc::new),
            Kind::Local(local) => Ok(local.clone()),
        }
    }

    /// Begins to read it from its start to its end, if all of it would have to
    /// be copied otherwise; `None` for what is on this machine, and for a server that
    /// ignores ranges.
    pub(crate) fn feed(&self, http: &HttpOptions) -> Result<Option<Feed>> {
        match &self.0 {
            Kind::Location(location) => location.feed(http),
            Kind::Local(_) => Ok(None),
            Kind::Source(source) => {
                let feed = || Feed::source(source.clone());
                Ok(source.is_one_version().then(feed))
            }
            Kind::Reader(reader) => reader.feed().map(Some),
        }
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Location(location) => location.fmt(f),
            Kind::Source(source) => f.write_str(source.name()),
            Kind::Reader(reader) => f.write_str(&reader.name),
            Kind::Local(local) => f.write_str(local.name()),
        }
    }
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Input").field(&self.to_string()).finish()
    }
}

/// Converts what a location can be made of.
macro_rules! from_location {
    ($($location:ty),*) => {$(
        impl From<$location> for Input {
            fn from(location: $location) -> Self {
                Self(Kind::Location(location.into()))
            }
        }
    )*};
}

from_location!(
    Location, &Location, &str, &String, String, &Path, PathBuf, &PathBuf, &OsStr, OsString
);

impl From<&Self> for Input {
    fn from(input: &Self) -> Self {
        input.clone()
    }
}

impl From<Box<dyn Source>> for Input {
    fn from(source: Box<dyn Source>) -> Self {
        Self(Kind::Source(source.into()))
    }
}

impl From<FileSource> for Input {
    fn from(source: FileSource) -> Self {
        Self::source(source)
    }
}

impl From<Remote> for Input {
    fn from(source: Remote) -> Self {
        Self::source(source)
    }
}

impl From<Local> for Input {
    fn from(local: Local) -> Self {
        Self(Kind::Local(Arc::new(local)))
    }
}

impl From<Vec<u8>> for Input {
    fn from(bytes: Vec<u8>) -> Self {
        Self::bytes("bytes in memory", bytes)
    }
}
