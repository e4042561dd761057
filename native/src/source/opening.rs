//! Opening what is at a location.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use super::scheme::{self, Scheme};
use super::{Feed, FileSource, HttpOptions, Location, Map, Remote, Source};
use super::{http as network, store};
use crate::output::temporary;
use crate::{Error, Result};

impl Location {
    /// Returns whether its bytes come only once.
    pub(crate) fn is_read_once(&self) -> bool {
        match self {
            Self::Path(path) => is_pipe(path),
            Self::Url(_) => false,
            Self::Stdin => true,
        }
    }

    /// Opens the file for reading parts. A local file becomes a [`FileSource`];
    /// a pipe and standard input are read to their end first. `http` is for an
    /// address.
    ///
    /// # Errors
    /// A file that cannot be opened; a folder or a device.
    pub fn open(&self, http: &HttpOptions) -> Result<Box<dyn Source>> {
        let head_len_bytes = zstn_core::limits::HEAD_LEN_BYTES;
        Ok(match self {
            Self::Url(url) => match Scheme::of(url)? {
                Scheme::Http | Scheme::Hub => Box::new(Remote::open(url, head_len_bytes, http)?),
                Scheme::File => return Self::Path(scheme::file_path(url)?).open(http),
                Scheme::Store => store::open(url, http)?,
            },
            Self::Path(path) if !is_pipe(path) => Box::new(FileSource::open(path)?),
            _ => Box::new(self.map(http, &|_, _| ())?),
        })
    }

    /// Opens the file for reading parts without copying all of it. Returns `None`
    /// for a server that ignores ranges, and for bytes that come only once.
    pub(crate) fn open_ranged(&self, http: &HttpOptions) -> Result<Option<Box<dyn Source>>> {
        let head_len_bytes = zstn_core::limits::HEAD_LEN_BYTES;
        match self {
            Self::Url(url) if matches!(Scheme::of(url)?, Scheme::Http | Scheme::Hub) => {
                let remote = Remote::open_ranged(url, head_len_bytes, http)?;
                Ok(remote.map(|remote| Box::new(remote) as Box<dyn Source>))
            }
            _ if self.is_read_once() => Ok(None),
            _ => self.open(http).map(Some),
        }
    }

    /// Maps the file into memory. Pipes, standard input and addresses are first
    /// copied into a temporary file, which is removed with the map. `http` is for
    /// an address. `progress` is called with the bytes fetched so far and, if
    /// known, the length.
    ///
    /// # Errors
    /// A file that cannot be opened or fetched; too little space for the copy.
    pub fn map(&self, http: &HttpOptions, progress: &dyn Fn(u64, Option<u64>)) -> Result<Map> {
        match self {
            Self::Path(path) if !is_pipe(path) => Map::open(path),
            Self::Url(url) => match Scheme::of(url)? {
                Scheme::Http | Scheme::Hub => network::download(url, http, progress),
                Scheme::File => Self::Path(scheme::file_path(url)?).map(http, progress),
                Scheme::Store => {
                    let mut feed = Feed::source(store::open(url, http)?.into());
                    feed.spool(temporary::create()?, 0, progress)
                }
            },
            _ => self.stream()?.spool(temporary::create()?, 0, progress),
        }
    }

    /// Begins to read the file from its start to its end, if all of it would have
    /// to be copied otherwise; `None` for a local file, and for a server that
    /// ignores ranges.
    pub(crate) fn feed(&self, http: &HttpOptions) -> Result<Option<Feed>> {
        match self {
            Self::Path(path) if !is_pipe(path) => Ok(None),
            Self::Url(url) => match Scheme::of(url)? {
                Scheme::Http | Scheme::Hub => {
                    let head_len_bytes = zstn_core::limits::HEAD_LEN_BYTES;
                    let remote = Remote::open_ranged(url, head_len_bytes, http)?;
                    // Answers without a version might be parts of two files.
                    let remote = remote.filter(Remote::has_version);
                    Ok(remote.map(|remote| Feed::source(Arc::new(remote))))
                }
                Scheme::File => Ok(None),
                Scheme::Store => Ok(Some(Feed::source(store::open(url, http)?.into()))),
            },
            _ => self.stream().map(Some),
        }
    }

    /// Begins to read what comes only once: a pipe or standard input.
    ///
    /// # Errors
    /// A pipe that cannot be opened.
    fn stream(&self) -> Result<Feed> {
        Ok(match self {
            Self::Path(path) => {
                let pipe = File::open(path).map_err(Error::file("open", path))?;
                Feed::stream(self.to_string(), pipe)
            }
            _ => Feed::stream(self.to_string(), io::stdin()),
        })
    }

    /// Reads a small file next to a checkpoint, such as `config.json`. Returns
    /// `None` if there is no such file, or if a server asks for a login: storage
    /// without a public list answers missing files so. A file of more than
    /// `max_bytes` is refused.
    pub(crate) fn read_small_if_any(
        &self,
        http: &HttpOptions,
        max_bytes: u64,
    ) -> Result<Option<Vec<u8>>> {
        use io::ErrorKind::NotFound;
        let is_in_store =
            matches!(self, Self::Url(url) if Scheme::find(url) == Some(Scheme::Store));
        match self.read_small(http, max_bytes) {
            Ok((bytes, _)) => Ok(Some(bytes)),
            Err(Error::Http {
                status: Some(404 | 410),
                ..
            }) => Ok(None),
            Err(Error::Http {
                status: Some(401 | 403),
                ..
            }) if !is_in_store => Ok(None),
            Err(Error::Io { source, .. }) if source.kind() == NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads a small file, such as the index of a checkpoint. Returns its bytes
    /// and the location that other files of the same version are siblings of. A
    /// file of more than `max_bytes` is refused.
    pub(crate) fn read_small(&self, http: &HttpOptions, max_bytes: u64) -> Result<(Vec<u8>, Self)> {
        let unreadable = |error| Error::io(format!("read {self}"), error);
        let too_long = || {
            let detail = format!("the file is over the cap of {max_bytes} bytes");
            Error::place(self)(zstn_core::Error::limit(detail))
        };
        let from: Box<dyn Read> = match self {
            Self::Stdin => Box::new(io::stdin()),
            Self::Path(path) => Box::new(File::open(path).map_err(Error::file("open", path))?),
            Self::Url(url) => match Scheme::of(url)? {
                Scheme::Http | Scheme::Hub => {
                    let small = network::small(url, http, max_bytes, too_long)?;
                    let pinned = small.pinned.map_or_else(|| self.clone(), Self::Url);
                    return Ok((small.bytes, pinned));
                }
                Scheme::File => {
                    let file = Self::Path(scheme::file_path(url)?);
                    return file.read_small(http, max_bytes);
                }
                Scheme::Store => {
                    let bytes = store::read_small(url, http, max_bytes, too_long)?;
                    return Ok((bytes, self.clone()));
                }
            },
        };
        let mut bytes = Vec::new();
        from.take(max_bytes.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
        if bytes.len() as u64 > max_bytes {
            return Err(too_long());
        }
        Ok((bytes, self.clone()))
    }
}

/// Returns whether `path` is a named pipe, such as a shell's `<(…)`.
fn is_pipe(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        path.metadata().is_ok_and(|file| file.file_type().is_fifo())
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}
