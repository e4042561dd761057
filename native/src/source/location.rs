//! The location of an input: a path, an address or standard input.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use zstn_core::catalog::IndexName;
use zstn_core::container::safetensors::{KERAS_INDEX_SUFFIX, SHARD_INDEX_SUFFIX};
use zstn_core::limits::HEAD_LEN_BYTES;

use super::local::MIN_ARRIVING_BYTES;
use super::open_location::Access;
use super::scheme::{self, Scheme};
#[cfg(feature = "store")]
use super::store;
#[cfg(feature = "async")]
use super::{AsyncSource, BlockingSource, async_source};
use super::{Feed, HttpOptions, Local, Source};
use super::{address, http as network};
use crate::{Error, Result, display};

/// The location of an input.
///
/// Texts and paths always become [`Location::Path`]: a file may be called `-` or
/// `http:`. Addresses are created with [`Location::url`].
///
/// ```
/// use zstn::Location;
///
/// assert_eq!(Location::from("-"), Location::Path("-".into()));
/// let model = Location::url("https://example.org/model.zstn?download=true");
/// let config = Location::url("https://example.org/config.json?download=true");
/// assert_eq!(model.sibling("config.json"), Some(config));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub enum Location {
    /// A file or a folder. Named pipes, sockets and devices are refused.
    Path(PathBuf),
    /// A named pipe, such as a shell's `<(…)`, which is read only once.
    Pipe(PathBuf),
    /// An address, such as an http(s) address.
    Url(String),
    /// Standard input.
    Stdin,
}

/// Implements conversions from types that represent a path.
macro_rules! from_path {
    ($($text:ty),*) => {$(
        impl From<$text> for Location {
            fn from(path: $text) -> Self {
                Self::Path(path.into())
            }
        }
    )*};
}

from_path!(&str, &String, String, &Path, PathBuf, &OsStr, OsString);

impl From<&PathBuf> for Location {
    fn from(path: &PathBuf) -> Self {
        Self::Path(path.clone())
    }
}

impl From<&OsString> for Location {
    fn from(path: &OsString) -> Self {
        Self::Path(path.into())
    }
}

impl From<&Self> for Location {
    fn from(location: &Self) -> Self {
        location.clone()
    }
}

/// Displays the path or address without the secrets that an address may contain: user,
/// password, query and fragment.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) | Self::Pipe(path) => path.display().fmt(f),
            Self::Url(url) => display::address(url).fmt(f),
            Self::Stdin => f.write_str("standard input"),
        }
    }
}

/// Hides the same secrets as [`Display`](fmt::Display).
impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => f.debug_tuple("Path").field(path).finish(),
            Self::Pipe(path) => f.debug_tuple("Pipe").field(path).finish(),
            Self::Url(url) => f.debug_tuple("Url").field(&display::address(url)).finish(),
            Self::Stdin => f.write_str("Stdin"),
        }
    }
}

impl Location {
    /// Returns the location of an address: `https://…`, `http://…`,
    /// `hf://OWNER/NAME@REVISION/FILE` for a file in a model hub, `s3://…`, `gs://…` or
    /// `az://…` for an object in a store (with the crate feature `store`), or
    /// `file:///…`, which becomes a path. Any other text is an error when the location
    /// is opened.
    ///
    /// ```
    /// use zstn::Location;
    ///
    /// let local = Location::url("file:///models/a%20b.zstn");
    /// # #[cfg(unix)]
    /// assert_eq!(local, Location::from("/models/a b.zstn"));
    /// ```
    pub fn url(url: impl Into<String>) -> Self {
        let url = url.into();
        match Scheme::find(&url) {
            Some(Scheme::File) => scheme::file_path(&url).map_or(Self::Url(url), Self::Path),
            _ => Self::Url(url),
        }
    }

    /// Returns whether `text` begins with a scheme of addresses, such as `https://`, so
    /// that a program should use [`Location::url`] for it.
    #[must_use]
    pub fn is_url(text: &str) -> bool {
        Scheme::find(text).is_some()
    }

    /// Returns the origin to which the first requests are sent, which consists of
    /// scheme, host and port: `https://example.org:443`. For a file in a hub this is
    /// the origin of `$HF_ENDPOINT`, or of <https://huggingface.co>. `None` for a
    /// location that is not read over HTTP.
    ///
    /// ```
    /// let model = zstn::Location::url("https://Example.org/model.zstn");
    /// assert_eq!(model.origin().unwrap(), "https://example.org:443");
    /// ```
    #[must_use]
    pub fn origin(&self) -> Option<String> {
        match self {
            Self::Url(url) => network::origin(url),
            Self::Path(_) | Self::Pipe(_) | Self::Stdin => None,
        }
    }

    /// Returns whether the bytes come from another machine.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self, Self::Url(url) if Scheme::find(url) != Some(Scheme::File))
    }

    /// Returns whether this is a local folder, or the address of a folder in an object
    /// store, which ends in a slash.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        match self {
            Self::Path(path) => path.is_dir(),
            Self::Url(_) => self.stored_folder().is_some(),
            Self::Pipe(_) | Self::Stdin => false,
        }
    }

    /// Returns the address, if this is the address of a folder in an object store.
    pub(crate) fn stored_folder(&self) -> Option<&str> {
        match self {
            Self::Url(url) if Scheme::find(url) == Some(Scheme::Store) => {
                url.ends_with('/').then_some(url)
            }
            _ => None,
        }
    }

    /// Returns whether this is the index of a sharded checkpoint, according to its
    /// name: the name ends in `.index.json` or, like an index of Keras, in
    /// `.weights.json`, or has a variant after the word `index` ([`IndexName`]).
    #[must_use]
    pub fn is_index(&self) -> bool {
        let name = self.file_name();
        name.is_some_and(|name| {
            let suffixes = [SHARD_INDEX_SUFFIX, KERAS_INDEX_SUFFIX];
            let mut suffixes = suffixes.into_iter();
            suffixes.any(|suffix| name.ends_with(suffix)) || IndexName::parse(&name).is_some()
        })
    }

    /// Returns whether the bytes can be read only once.
    pub(crate) fn is_read_once(&self) -> bool {
        match self {
            Self::Path(_) | Self::Url(_) => false,
            Self::Pipe(_) | Self::Stdin => true,
        }
    }

    /// Opens the file for reading ranges. A local file becomes a
    /// [`FileSource`](super::FileSource). A pipe and standard input are read to their
    /// end first. A file on a server that ignores ranges is read as a whole if it has
    /// at most [`HttpOptions::max_full_download_bytes`]. `http` applies to addresses.
    ///
    /// # Errors
    /// A file that cannot be opened; a folder, a socket or a device.
    pub fn open(&self, http: &HttpOptions) -> Result<Box<dyn Source>> {
        Access::of(self)?.open(http)
    }

    /// Opens the file for reading ranges without copying it as a whole. Returns `None`
    /// for a server that ignores ranges, and for bytes that can be read only once.
    pub(crate) fn open_ranged(&self, http: &HttpOptions) -> Result<Option<Box<dyn Source>>> {
        Access::of(self)?.open_ranged(HEAD_LEN_BYTES, http)
    }

    /// Makes the whole file available on this machine. Pipes, standard input and
    /// addresses are copied into a temporary file, which is removed when the result is
    /// dropped. `http` applies to addresses. `progress` is called with the number of
    /// bytes fetched and the length, if it is known.
    ///
    /// # Errors
    /// A file that cannot be opened or fetched; too little space for the copy.
    pub fn fetch(&self, http: &HttpOptions, progress: &dyn Fn(u64, Option<u64>)) -> Result<Local> {
        Access::of(self)?.fetch(http, progress)
    }

    /// Makes a packed file available for decoding it. A container on a server or in a
    /// store is not copied: it arrives while it is decoded, unless it is small, or its
    /// server ignores ranges or names no version of the file. Other files are fetched like
    /// [`Location::fetch`].
    pub(crate) fn fetch_packed(
        &self,
        http: &HttpOptions,
        progress: &dyn Fn(u64, Option<u64>),
    ) -> Result<Local> {
        if self.is_remote()
            && let Some(source) = Access::of(self)?.open_ranged(MIN_ARRIVING_BYTES, http)?
            && source.is_one_version()
        {
            return Local::of_packed(source.into(), progress);
        }
        self.fetch(http, progress)
    }

    /// Begins to read the file from start to end, if it would otherwise have to be
    /// copied as a whole. Returns `None` for a local file, and for a server that
    /// ignores ranges.
    #[doc(hidden)]
    pub fn feed(&self, http: &HttpOptions) -> Result<Option<Feed>> {
        Access::of(self)?.feed(http)
    }

    /// Reads a small file in the folder of a checkpoint, such as `config.json`. Returns
    /// `None` if the file does not exist, or if a server requires a login: storage
    /// without a public listing answers like this for missing files. A file of more
    /// than `max_bytes` is refused.
    #[doc(hidden)]
    pub fn read_small_if_any(&self, http: &HttpOptions, max_bytes: u64) -> Result<Option<Vec<u8>>> {
        if_any(self.read_small(http, max_bytes))
    }

    /// Reads a small file like [`Location::read_small`], without blocking a thread.
    #[cfg(feature = "async")]
    pub(crate) async fn read_small_async(
        &self,
        http: &HttpOptions,
        max_bytes: u64,
    ) -> Result<(Vec<u8>, Self)> {
        #[cfg(feature = "http")]
        if let Access::Server(url) = Access::of(self)? {
            let small = network::small(url, http, max_bytes, || self.too_long(max_bytes));
            let small = async_source::within(small).await?;
            let version = small.pinned.map_or_else(|| self.clone(), Self::Url);
            return Ok((small.bytes, version));
        }
        let (location, http) = (self.clone(), http.clone());
        async_source::on_thread(move || location.read_small(&http, max_bytes)).await
    }

    /// Opens the file for reading ranges without blocking a thread.
    ///
    /// # Errors
    /// The errors of [`Location::open`].
    #[cfg(feature = "async")]
    pub async fn open_async(&self, http: &HttpOptions) -> Result<std::sync::Arc<dyn AsyncSource>> {
        #[cfg(feature = "http")]
        if let Access::Server(url) = Access::of(self)? {
            return network::open_async(url, http).await;
        }
        #[cfg(feature = "store")]
        if let Access::Store(url) = Access::of(self)? {
            return store::open_async(url, http).await;
        }
        let (location, http) = (self.clone(), http.clone());
        let source = async_source::on_thread(move || location.open(&http)).await?;
        Ok(std::sync::Arc::new(BlockingSource::from(
            std::sync::Arc::from(source),
        )))
    }

    /// Reads a small file, such as the index of a checkpoint. Returns its bytes and the
    /// location to use for siblings of the same version. A file of more than
    /// `max_bytes` is refused.
    #[doc(hidden)]
    pub fn read_small(&self, http: &HttpOptions, max_bytes: u64) -> Result<(Vec<u8>, Self)> {
        let too_long = || self.too_long(max_bytes);
        let (bytes, pinned) = Access::of(self)?.read_small(http, max_bytes, too_long)?;
        Ok((bytes, pinned.map_or_else(|| self.clone(), Self::Url)))
    }

    fn too_long(&self, max_bytes: u64) -> Error {
        let detail = format!("the file is over the cap of {max_bytes} bytes");
        Error::place(self)(zstn_core::Error::limit(detail))
    }

    /// Returns the location of the file called `name` in the same folder, with the
    /// query of an address. Standard input has no siblings. `name` must be a plain file
    /// name, or several joined by `/` for a file in a folder below.
    #[must_use]
    pub fn sibling(&self, name: &str) -> Option<Self> {
        match self {
            Self::Stdin => None,
            Self::Path(path) | Self::Pipe(path) => Some(Self::Path(path.with_file_name(name))),
            Self::Url(url) => Some(Self::Url(address::sibling(url, name))),
        }
    }

    /// Returns the last component of the path or address, if there is one.
    #[must_use]
    pub fn file_name(&self) -> Option<String> {
        let name = match self {
            Self::Stdin => return None,
            Self::Path(path) | Self::Pipe(path) => path.file_name()?.to_string_lossy().into_owned(),
            Self::Url(url) => address::file_name(url),
        };
        (!name.is_empty()).then_some(name)
    }
}

/// Returns the bytes of a small file; `None` if it does not exist or requires a login.
pub(crate) fn if_any(read: Result<(Vec<u8>, Location)>) -> Result<Option<Vec<u8>>> {
    use std::io::ErrorKind::NotFound;
    match read {
        Ok((bytes, _)) => Ok(Some(bytes)),
        Err(Error::Http {
            status: Some(401 | 403 | 404 | 410),
            ..
        }) => Ok(None),
        Err(Error::Io { source, .. }) if source.kind() == NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_keep_the_query_and_never_leave_the_folder() {
        for (location, name, expected) in [
            (
                "https://h/a/m.index.json?download=true#top",
                "s 1.bin",
                "https://h/a/s%201.bin?download=true",
            ),
            ("http://h/m.index.json?x=/y/z", "s", "http://h/s?x=/y/z"),
            ("http://h/a/m", "s?evil#%2e", "http://h/a/s%3Fevil%23%252e"),
            ("http://h/a/m?x", "b/s 1", "http://h/a/b/s%201?x"),
        ] {
            let sibling = Location::url(location).sibling(name);
            assert_eq!(sibling, Some(Location::url(expected)), "{location}");
        }
        for (path, name, expected) in [
            ("a/m.index.json", "s.bin", "a/s.bin"),
            ("m.index.json", "s.bin", "s.bin"),
        ] {
            let sibling = Location::from(path).sibling(name);
            assert_eq!(sibling, Some(Location::from(expected)), "{path}");
        }
        assert_eq!(Location::Stdin.sibling("s"), None);
        let name = |url: &str| Location::url(url).file_name();
        assert_eq!(
            name("http://h/a/m%201.index.json?x=/y").unwrap(),
            "m 1.index.json"
        );
        assert_eq!(name("http://h/a/"), None);
    }

    #[test]
    fn texts_are_paths_whatever_they_look_like() {
        for text in ["-", "http://h/a", "https:", ""] {
            assert_eq!(Location::from(text), Location::Path(text.into()));
        }
    }
}
