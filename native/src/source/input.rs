//! The input of functions that process whole checkpoints.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(feature = "http")]
use super::Remote;
#[cfg(feature = "async")]
use super::{AsyncSource, BlockingSource, on_thread};
use super::{Feed, FileSource, HttpOptions, Local, Location, Source};
use crate::output::temporary;
use crate::{Error, Progress, Result};

/// A checkpoint to process: a [`Location`], a [`Source`] or bytes in memory.
///
/// Paths convert into inputs, and so does a [`Location`], for an address or standard
/// input. A path may lead to a file, to the index of a sharded checkpoint, or to a
/// folder that contains a checkpoint; an address may lead to a file or an index. The
/// bytes of a file determine its format, not its name.
///
/// Reading single tensors reads ranges of an input. Functions that process whole inputs
/// read local files by range. [`pack`](crate::pack()) processes other safetensors files
/// while they arrive, in memory; it copies only tensors that do not fit into the memory
/// of the job, one at a time. [`unpack`](crate::unpack()) and
/// [`verify`](crate::verify()) decode containers of at least 4 MiB on servers while they
/// arrive. All other inputs, such as deltas and bases, are first copied into a temporary
/// file, and so is a file whose server ignores ranges or names no version of it.
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

/// A reader that can be used once.
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
    /// Uses the bytes of `source`.
    pub fn source(source: impl Source + 'static) -> Self {
        Self(Kind::Source(Arc::new(source)))
    }

    /// Uses the bytes that `from` returns. Packing does not need a complete copy of
    /// them. The input and its clones can be used only once in total. Error messages
    /// call it `name`.
    pub fn reader(name: impl Into<String>, from: impl Read + Send + 'static) -> Self {
        Self(Kind::Reader(Arc::new(Once {
            name: name.into(),
            from: Mutex::new(Some(Box::new(from))),
        })))
    }

    /// Uses bytes in memory. Error messages call them `name`.
    pub fn bytes(name: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Local::of_bytes(name.into(), bytes.into()).into()
    }

    /// Returns the location of the input; `None` for a source, a reader or bytes in
    /// memory.
    #[doc(hidden)]
    pub fn location(&self) -> Option<&Location> {
        match &self.0 {
            Kind::Location(location) => Some(location),
            _ => None,
        }
    }

    /// Returns an input that can be opened more than once. Standard input, pipes and
    /// readers are read to their end for this.
    pub(crate) fn rewindable(&self, http: &HttpOptions) -> Result<Self> {
        match &self.0 {
            Kind::Location(location) if location.is_read_once() => {
                Ok(location.fetch(http, &|_, _| ())?.into())
            }
            Kind::Reader(reader) => Ok(reader.fetch(&|_, _| ())?.into()),
            _ => Ok(self.clone()),
        }
    }

    /// Returns whether the bytes come from a server or another remote source.
    pub(crate) fn is_remote(&self) -> bool {
        match &self.0 {
            Kind::Location(location) => location.is_remote(),
            Kind::Source(source) => source.is_remote(),
            Kind::Reader(_) | Kind::Local(_) => false,
        }
    }

    /// Opens the input for reading ranges.
    pub(crate) fn open(&self, http: &HttpOptions) -> Result<Box<dyn Source>> {
        Ok(match &self.0 {
            Kind::Location(location) => location.open(http)?,
            Kind::Source(source) => Box::new(source.clone()),
            Kind::Reader(reader) => Box::new(reader.fetch(&|_, _| ())?),
            Kind::Local(local) => Box::new(local.clone()),
        })
    }

    /// Opens the input for reading ranges without blocking a thread.
    #[cfg(feature = "async")]
    pub(crate) async fn open_async(&self, http: &HttpOptions) -> Result<Arc<dyn AsyncSource>> {
        Ok(match &self.0 {
            Kind::Location(location) => location.open_async(http).await?,
            Kind::Source(source) => Arc::new(BlockingSource::from(source.clone())),
            Kind::Local(local) => Arc::new(BlockingSource::new(local.clone())),
            Kind::Reader(reader) => {
                let reader = reader.clone();
                let local = on_thread(move || reader.fetch(&|_, _| ())).await?;
                Arc::new(BlockingSource::new(local))
            }
        })
    }

    /// Makes the whole input available on this machine.
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

    /// Makes a packed file available for decoding it, like [`Location::fetch_packed`].
    pub(crate) fn fetch_packed(
        &self,
        http: &HttpOptions,
        progress: &dyn Progress,
    ) -> Result<Arc<Local>> {
        let fetching = |so_far, len| progress.fetching(so_far, len);
        match &self.0 {
            Kind::Location(location) => location.fetch_packed(http, &fetching).map(Arc::new),
            Kind::Source(source) if source.is_remote() && source.is_one_version() => {
                Local::of_packed(source.clone(), &fetching).map(Arc::new)
            }
            _ => self.fetch(http, progress),
        }
    }

    /// Returns whether the bytes can be read only once.
    pub(crate) fn is_read_once(&self) -> bool {
        match &self.0 {
            Kind::Location(location) => location.is_read_once(),
            Kind::Reader(_) => true,
            Kind::Source(_) | Kind::Local(_) => false,
        }
    }

    /// Begins to read the input from start to end, if it would otherwise have to be
    /// copied as a whole. Returns `None` for an input on this machine, and for a server
    /// that ignores ranges.
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

/// Implements conversions from types that convert into a location.
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

#[cfg(feature = "http")]
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
