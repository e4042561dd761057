//! Inputs as a person names them, and bringing a whole one onto this machine.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::{FileSource, HttpOptions, Map, Remote, Source, http};
use crate::output::temporary;
use crate::{Error, Result};

/// What stands for itself in the path of an address.
pub(crate) const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// An address without its query, and the query. The fragment goes.
fn split(url: &str) -> (&str, &str) {
    let url = url.split('#').next().unwrap_or_default();
    url.split_at(url.find('?').unwrap_or(url.len()))
}

/// What a command line's IN means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A file.
    Path(PathBuf),
    /// An http(s) address.
    Url(String),
    /// `-`, standard input.
    Stdin,
}

impl From<&OsStr> for Place {
    fn from(text: &OsStr) -> Self {
        match text.to_str() {
            Some("-") => Self::Stdin,
            Some(url) if url.starts_with("http://") || url.starts_with("https://") => {
                Self::Url(url.into())
            }
            _ => Self::Path(text.into()),
        }
    }
}

impl From<OsString> for Place {
    fn from(text: OsString) -> Self {
        Self::from(text.as_os_str())
    }
}

/// A path is a path, whatever it looks like.
impl From<&Path> for Place {
    fn from(path: &Path) -> Self {
        Self::Path(path.into())
    }
}

impl From<PathBuf> for Place {
    fn from(path: PathBuf) -> Self {
        Self::Path(path)
    }
}

impl From<&PathBuf> for Place {
    fn from(path: &PathBuf) -> Self {
        Self::Path(path.clone())
    }
}

impl From<&str> for Place {
    fn from(text: &str) -> Self {
        Self::from(OsStr::new(text))
    }
}

impl From<&String> for Place {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl From<&Place> for Place {
    fn from(place: &Place) -> Self {
        place.clone()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.display().fmt(f),
            Self::Url(url) => url.fmt(f),
            Self::Stdin => f.write_str("standard input"),
        }
    }
}

impl Place {
    /// Opens it for reading parts. A local file is a [`FileSource`]; a pipe is
    /// read to its end first.
    pub fn open(&self) -> Result<Box<dyn Source>> {
        self.open_with(&HttpOptions::default())
    }

    /// As [`Place::open`], with other limits for an address.
    pub fn open_with(&self, http: &HttpOptions) -> Result<Box<dyn Source>> {
        let head_len_bytes = zstn_core::limits::HEAD_LEN_BYTES;
        Ok(match self {
            Self::Url(url) => Box::new(Remote::open_with(url, head_len_bytes, http)?),
            Self::Path(path) if !is_pipe(path) => Box::new(FileSource::open(path)?),
            _ => Box::new(self.whole(&|_, _| ())?),
        })
    }

    /// Makes all of it available as a map. Standard input and addresses go
    /// through a file that is gone when the map is. `progress` is told bytes
    /// so far and, if known, in all.
    pub fn whole(&self, progress: &dyn Fn(u64, Option<u64>)) -> Result<Map> {
        match self {
            Self::Path(path) if is_pipe(path) => {
                let mut pipe = File::open(path).map_err(Error::file("open", path))?;
                spool(&path.display().to_string(), &mut pipe, |_| ())
            }
            Self::Path(path) => Map::open(path),
            Self::Stdin => spool("standard input", &mut io::stdin().lock(), |_| ()),
            Self::Url(url) => http::download(url, progress),
        }
    }

    /// All of a small file beside a checkpoint, such as its index or
    /// `config.json`; `None` if there is none. One of more than `most_bytes`
    /// is refused. A server that hides what is not there behind a login gives
    /// `None` as well: storage without a public list answers so.
    pub fn small(&self, most_bytes: u64) -> Result<Option<Vec<u8>>> {
        self.small_with(&HttpOptions::default(), most_bytes)
    }

    /// As [`Place::small`], with other limits for an address.
    pub(crate) fn small_with(
        &self,
        http: &HttpOptions,
        most_bytes: u64,
    ) -> Result<Option<Vec<u8>>> {
        let unreadable = |error| Error::io(format!("read {self}"), error);
        let too_long = || {
            let detail = format!("the file is over the cap of {most_bytes} bytes");
            Error::place(self)(zstn_core::Error::limit(detail))
        };
        let from: Box<dyn Read> = match self {
            Self::Stdin => Box::new(io::stdin()),
            Self::Path(path) => match File::open(path) {
                Ok(file) => Box::new(file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(Error::file("open", path)(error)),
            },
            Self::Url(url) => return http::small(url, http, most_bytes, too_long),
        };
        let mut bytes = Vec::new();
        from.take(most_bytes.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(unreadable)?;
        if bytes.len() as u64 > most_bytes {
            return Err(too_long());
        }
        Ok(Some(bytes))
    }

    /// The file of that name beside this one; the query of an address stays.
    /// `None` for standard input, which has no neighbours. `name` must be a
    /// plain file name.
    #[must_use]
    pub fn beside(&self, name: &str) -> Option<Self> {
        match self {
            Self::Stdin => None,
            Self::Path(path) => Some(Self::Path(path.with_file_name(name))),
            Self::Url(url) => {
                let (path, query) = split(url);
                let folder = path.rfind('/').map_or(path, |slash| &path[..=slash]);
                let name = utf8_percent_encode(name, PLAIN);
                Some(Self::Url(format!("{folder}{name}{query}")))
            }
        }
    }

    /// The last part of the path or address; `None` where there is none.
    #[must_use]
    pub fn file_name(&self) -> Option<String> {
        let name = match self {
            Self::Stdin => return None,
            Self::Path(path) => path.file_name()?.to_string_lossy().into_owned(),
            Self::Url(url) => {
                let last = split(url).0.rsplit('/').next()?;
                percent_decode_str(last).decode_utf8_lossy().into_owned()
            }
        };
        (!name.is_empty()).then_some(name)
    }
}

/// Whether a path is that of a named pipe, such as a shell's `<(…)`.
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

fn spool(name: &str, from: &mut dyn Read, progress: impl Fn(u64)) -> Result<Map> {
    let mut file = temporary::create()?;
    let mut buffer = vec![0; 1 << 20];
    let mut so_far = 0;
    loop {
        let len = match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(len) => len,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Error::io(format!("read {name}"), error)),
        };
        file.write_all(&buffer[..len])
            .map_err(|error| temporary::failed("write")(error))?;
        so_far += len as u64;
        progress(so_far);
    }
    Map::new(name.into(), &file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_keep_the_query_and_never_leave_the_folder() {
        let beside = |place: &str, name: &str| Place::from(place).beside(name).unwrap();
        for (place, name, expected) in [
            (
                "https://h/a/m.index.json?download=true#top",
                "s 1.bin",
                "https://h/a/s%201.bin?download=true",
            ),
            ("http://h/m.index.json?x=/y/z", "s", "http://h/s?x=/y/z"),
            ("http://h/a/m", "s?evil#%2e", "http://h/a/s%3Fevil%23%252e"),
            ("a/m.index.json", "s.bin", "a/s.bin"),
            ("m.index.json", "s.bin", "s.bin"),
        ] {
            assert_eq!(beside(place, name), Place::from(expected), "{place}");
        }
        assert_eq!(Place::Stdin.beside("s"), None);
        let name = |place: &str| Place::from(place).file_name();
        assert_eq!(
            name("http://h/a/m%201.index.json?x=/y").unwrap(),
            "m 1.index.json"
        );
        assert_eq!(name("http://h/a/"), None);
    }
}
