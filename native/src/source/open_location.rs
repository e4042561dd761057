//! Opens and reads locations of every type.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use zstn_core::limits::HEAD_LEN_BYTES;

use super::regular;
use super::scheme::{self, Scheme};
use super::{Feed, FileSource, HttpOptions, Local, Location, Source, blocking_http, store};
use crate::output::temporary;
use crate::{Error, Result};

/// The place from which the bytes of a location are read.
pub(super) enum Access<'a> {
    /// A local file.
    File(Cow<'a, Path>),
    /// A named pipe, which can be read only once.
    Pipe(&'a Path),
    /// Standard input, which can be read only once.
    Stdin,
    /// A file on a web server or in a hub.
    Server(&'a str),
    /// An object in a store.
    Store(&'a str),
}

impl<'a> Access<'a> {
    /// Determines how to read `location`.
    ///
    /// # Errors
    /// [`Error::Usage`] for an address that cannot be read.
    pub(super) fn of(location: &'a Location) -> Result<Self> {
        Ok(match location {
            Location::Path(path) => Self::File(Cow::Borrowed(path)),
            Location::Pipe(path) => Self::Pipe(path),
            Location::Stdin => Self::Stdin,
            Location::Url(url) => match Scheme::of(url)? {
                Scheme::Http | Scheme::Hub => Self::Server(url),
                Scheme::Store => Self::Store(url),
                Scheme::File => Self::File(Cow::Owned(scheme::file_path(url)?)),
            },
        })
    }

    /// See [`Location::open`].
    pub(super) fn open(&self, http: &HttpOptions) -> Result<Box<dyn Source>> {
        Ok(match self {
            Self::File(path) => Box::new(FileSource::open(path)?),
            Self::Server(url) => match blocking_http::open_ranged(url, HEAD_LEN_BYTES, http)? {
                Some(remote) => remote,
                None => Box::new(blocking_http::without_ranges(url, http)?),
            },
            Self::Store(url) => store::open(url, http)?,
            Self::Pipe(_) | Self::Stdin => Box::new(self.fetch(http, &|_, _| ())?),
        })
    }

    /// See [`Location::open_ranged`]. The first `head_len_bytes` bytes of a file on a
    /// server come with the response that opens it.
    pub(super) fn open_ranged(
        &self,
        head_len_bytes: u64,
        http: &HttpOptions,
    ) -> Result<Option<Box<dyn Source>>> {
        match self {
            Self::Pipe(_) | Self::Stdin => Ok(None),
            Self::Server(url) => blocking_http::open_ranged(url, head_len_bytes, http),
            Self::File(_) | Self::Store(_) => self.open(http).map(Some),
        }
    }

    /// See [`Location::fetch`].
    pub(super) fn fetch(
        &self,
        http: &HttpOptions,
        progress: &dyn Fn(u64, Option<u64>),
    ) -> Result<Local> {
        match self {
            Self::File(path) => Local::open(path),
            Self::Server(url) => blocking_http::download(url, http, progress),
            Self::Store(url) => {
                let mut feed = Feed::source(store::open(url, http)?.into());
                feed.copy(temporary::create()?, 0, progress)
            }
            Self::Pipe(_) | Self::Stdin => self.stream()?.copy(temporary::create()?, 0, progress),
        }
    }

    /// See [`Location::feed`].
    pub(super) fn feed(&self, http: &HttpOptions) -> Result<Option<Feed>> {
        match self {
            Self::File(_) => Ok(None),
            Self::Server(url) => {
                let remote = blocking_http::open_ranged(url, HEAD_LEN_BYTES, http)?;
                // Responses without a version might contain parts of two versions of
                // the file.
                let remote = remote.filter(|remote| remote.is_one_version());
                Ok(remote.map(|remote| Feed::source(remote.into())))
            }
            Self::Store(url) => Ok(Some(Feed::source(store::open(url, http)?.into()))),
            Self::Pipe(_) | Self::Stdin => self.stream().map(Some),
        }
    }

    /// Begins to read a location that can be read only once.
    fn stream(&self) -> Result<Feed> {
        Ok(match self {
            Self::Pipe(path) => {
                let pipe = open_pipe(path)?;
                Feed::stream(path.display().to_string(), pipe)
            }
            _ => Feed::stream(Location::Stdin.to_string(), io::stdin()),
        })
    }

    /// Reads a small file; see [`Location::read_small`]. Returns its bytes and, if this
    /// version of the file has its own address, that address.
    pub(super) fn read_small(
        &self,
        http: &HttpOptions,
        max_bytes: u64,
        too_long: impl FnOnce() -> Error,
    ) -> Result<(Vec<u8>, Option<String>)> {
        let (from, name): (Box<dyn Read>, _) = match self {
            Self::Stdin => (Box::new(io::stdin()), Location::Stdin.to_string()),
            Self::File(path) => {
                let file = regular::open(path).map_err(Error::file("open", path))?;
                (Box::new(file), path.display().to_string())
            }
            Self::Pipe(path) => (Box::new(open_pipe(path)?), path.display().to_string()),
            Self::Server(url) => {
                return blocking_http::small(url, http, max_bytes, too_long);
            }
            Self::Store(url) => {
                let bytes = store::read_small(url, http, max_bytes, too_long)?;
                return Ok((bytes, None));
            }
        };
        let mut bytes = Vec::new();
        from.take(max_bytes.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|error| Error::io(format!("read {name}"), error))?;
        match bytes.len() as u64 > max_bytes {
            true => Err(too_long()),
            false => Ok((bytes, None)),
        }
    }
}

/// How long to wait for a program that writes into a named pipe, in milliseconds.
#[cfg(unix)]
const WRITER_MS: i64 = 5000;

/// Opens a named pipe for reading once a program has written into it.
///
/// # Errors
/// [`Error::Usage`] if no program writes into it: waiting for it would never end.
fn open_pipe(path: &Path) -> Result<File> {
    let fail = || Error::file("open", path);
    #[cfg(unix)]
    {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        use rustix::fs::{OFlags, fcntl_setfl};
        use std::os::unix::fs::OpenOptionsExt;

        let mut options = File::options();
        options.read(true).custom_flags(regular::nonblocking());
        let pipe = options.open(path).map_err(|error| fail()(error))?;
        let mut wanted = [PollFd::new(&pipe, PollFlags::IN)];
        let timeout = Timespec {
            tv_sec: WRITER_MS / 1000,
            tv_nsec: 0,
        };
        match poll(&mut wanted, Some(&timeout)) {
            Ok(0) => {
                return Err(Error::Usage(format!(
                    "{} is a named pipe, and no program has written into it for {} seconds; \
                     start that program first",
                    path.display(),
                    WRITER_MS / 1000
                )));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(fail()(error.into())),
        }
        fcntl_setfl(&pipe, OFlags::empty()).map_err(|error| fail()(error.into()))?;
        Ok(pipe)
    }
    #[cfg(not(unix))]
    File::open(path).map_err(fail())
}
