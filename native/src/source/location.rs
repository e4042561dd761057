//! The location of an input: a path, an address or standard input.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use zstn_core::catalog::IndexName;
use zstn_core::container::safetensors::SHARD_INDEX_SUFFIX;

use super::access::Access;
use super::scheme::{self, Scheme};
use super::{Feed, HttpOptions, Local, Source};
use super::{address, http as network};
use crate::{Error, Result, display};

/// The location of an input.
///
/// Texts and paths become [`Location::Path`] whatever they look like: a file
/// may be called `-` or `http:`. An address is given with [`Location::url`].
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
    /// A file or a folder. A named pipe, a socket and a device are refused.
    Path(PathBuf),
    /// A named pipe, such as a shell's `<(…)`, which is read once.
    Pipe(PathBuf),
    /// An address, such as an http(s) one.
    Url(String),
    /// Standard input.
    Stdin,
}

/// Converts what a path can be made of.
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

/// Displays the path or address, without the secrets that an address may hold:
/// user, password, query and fragment.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) | Self::Pipe(path) => path.display().fmt(f),
            Self::Url(url) => display::address(url).fmt(f),
            Self::Stdin => f.write_str("standard input"),
        }
    }
}

/// Hides what [`Display`](fmt::Display) hides.
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
    /// `hf://OWNER/NAME@REVISION/FILE` for a file in a model hub, `s3://…`,
    /// `gs://…` or `az://…` for an object in a store (with the crate feature
    /// `store`), or `file:///…`. The last becomes its path. A text that is not such an
    /// address is an error when the location is opened.
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

    /// Returns whether `text` begins with a scheme of addresses, such as
    /// `https://`, so that a program may take it for [`Location::url`] rather
    /// than for a path.
    #[must_use]
    pub fn is_url(text: &str) -> bool {
        Scheme::find(text).is_some()
    }

    /// Returns the origin that requests for it go to first, scheme, host and
    /// port: `https://example.org:443`. For a file in a hub that is `$HF_ENDPOINT`,
    /// or <https://huggingface.co>. `None` if it is not read over HTTP.
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

    /// Returns whether its bytes come from another machine.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self, Self::Url(url) if Scheme::find(url) != Some(Scheme::File))
    }

    /// Returns whether this is a local folder, or the address of one in an object
    /// store, which ends in a slash.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        match self {
            Self::Path(path) => path.is_dir(),
            Self::Url(_) => self.stored_folder().is_some(),
            Self::Pipe(_) | Self::Stdin => false,
        }
    }

    /// Returns the address, if it is that of a folder in an object store.
    pub(crate) fn stored_folder(&self) -> Option<&str> {
        match self {
            Self::Url(url) if Scheme::find(url) == Some(Scheme::Store) => {
                url.ends_with('/').then_some(url)
            }
            _ => None,
        }
    }

    /// Returns whether this is the index of a checkpoint in several files, by
    /// its name: it ends in `.index.json`, or has a variant next to the word `index`
    /// ([`IndexName`]).
    #[must_use]
    pub fn is_index(&self) -> bool {
        let name = self.file_name();
        name.is_some_and(|name| {
            name.ends_with(SHARD_INDEX_SUFFIX) || IndexName::parse(&name).is_some()
        })
    }

    /// Returns whether its bytes come only once.
    pub(crate) fn is_read_once(&self) -> bool {
        match self {
            Self::Path(_) | Self::Url(_) => false,
            Self::Pipe(_) | Self::Stdin => true,
        }
    }

    /// Opens the file for reading parts. A local file becomes a
    /// [`FileSource`](super::FileSource); a pipe and standard input are read to
    /// their end first, and a file on a server that ignores ranges is read whole if
    /// it has at most [`HttpOptions::max_full_download_bytes`]. `http` is for an
    /// address.
    ///
    /// # Errors
    /// A file that cannot be opened; a folder, a socket or a device.
    pub fn open(&self, http: &HttpOptions) -> Result<Box<dyn Source>> {
        Access::of(self)?.open(http)
    }

    /// Opens the file for reading parts without copying all of it. Returns `None`
    /// for a server that ignores ranges, and for bytes that come only once.
    pub(crate) fn open_ranged(&self, http: &HttpOptions) -> Result<Option<Box<dyn Source>>> {
        Access::of(self)?.open_ranged(http)
    }

    /// Makes all of the file available on this machine. Pipes, standard input and
    /// addresses are copied into a temporary file, which is removed with the result.
    /// `http` is for an address. `progress` is called with the bytes fetched so far
    /// and, if known, the length.
    ///
    /// # Errors
    /// A file that cannot be opened or fetched; too little space for the copy.
    pub fn fetch(&self, http: &HttpOptions, progress: &dyn Fn(u64, Option<u64>)) -> Result<Local> {
        Access::of(self)?.fetch(http, progress)
    }

    /// Begins to read the file from its start to its end, if all of it would have
    /// to be copied otherwise; `None` for a local file, and for a server that
    /// ignores ranges.
    #[doc(hidden)]
    pub fn feed(&self, http: &HttpOptions) -> Result<Option<Feed>> {
        Access::of(self)?.feed(http)
    }

    /// Reads a small file next to a checkpoint, such as `config.json`. Returns
    /// `None` if there is no such file, or if a server asks for a login: storage
    /// without a public list answers missing files so. A file of more than
    /// `max_bytes` is refused.
    #[doc(hidden)]
    pub fn read_small_if_any(&self, http: &HttpOptions, max_bytes: u64) -> Result<Option<Vec<u8>>> {
        use std::io::ErrorKind::NotFound;
        match self.read_small(http, max_bytes) {
            Ok((bytes, _)) => Ok(Some(bytes)),
            Err(Error::Http {
                status: Some(401 | 403 | 404 | 410),
                ..
            }) => Ok(None),
            Err(Error::Io { source, .. }) if source.kind() == NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a small file, such as the index of a checkpoint. Returns its bytes
    /// and the location that other files of the same version are siblings of. A
    /// file of more than `max_bytes` is refused.
    #[doc(hidden)]
    pub fn read_small(&self, http: &HttpOptions, max_bytes: u64) -> Result<(Vec<u8>, Self)> {
        let too_long = || {
            let detail = format!("the file is over the cap of {max_bytes} bytes");
            Error::place(self)(zstn_core::Error::limit(detail))
        };
        let (bytes, pinned) = Access::of(self)?.read_small(http, max_bytes, too_long)?;
        Ok((bytes, pinned.map_or_else(|| self.clone(), Self::Url)))
    }

    /// Returns the location of the file called `name` in the same folder; the
    /// query of an address stays. Standard input has no siblings. `name` must
    /// be a plain file name.
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
