//! Inputs as a person names them, and bringing a whole one onto this machine.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::PathBuf;

use ureq::http::{StatusCode, header};

use super::{Map, Remote, Source, http};
use crate::{Error, Result};

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

impl From<&str> for Place {
    fn from(text: &str) -> Self {
        match text {
            "-" => Self::Stdin,
            url if url.starts_with("http://") || url.starts_with("https://") => {
                Self::Url(url.into())
            }
            path => Self::Path(path.into()),
        }
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
    /// Opens it for reading parts.
    pub fn open(&self) -> Result<Box<dyn Source>> {
        Ok(match self {
            Self::Url(url) => Box::new(Remote::open(url, zstn_core::limits::HEAD_LEN_BYTES)?),
            _ => Box::new(self.whole(&|_, _| ())?),
        })
    }

    /// Makes all of it available as a map. Standard input and addresses go
    /// through a file that is gone when the map is. `progress` is told bytes
    /// so far and, if known, in all.
    pub fn whole(&self, progress: &dyn Fn(u64, Option<u64>)) -> Result<Map> {
        match self {
            Self::Path(path) => Map::open(path),
            Self::Stdin => spool("standard input", &mut io::stdin().lock(), |_| ()),
            Self::Url(url) => download(url, progress),
        }
    }
}

/// Fetches the file at `url` in one request.
pub fn download(url: &str, progress: &dyn Fn(u64, Option<u64>)) -> Result<Map> {
    let response = http::agent()
        .get(url)
        .header(header::ACCEPT_ENCODING, "identity")
        .call()
        .map_err(|error| http::problem(url, format!("cannot be reached: {error}")))?;
    if response.status() != StatusCode::OK {
        return Err(http::refused(url, response.status()));
    }
    let expected: Option<u64> = response
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    let map = spool(url, &mut response.into_body().into_reader(), |so_far| {
        progress(so_far, expected);
    })?;
    match expected {
        Some(expected) if expected != map.len_bytes() => Err(http::problem(
            url,
            format!(
                "the download ended after {} of {expected} bytes; try again",
                map.len_bytes()
            ),
        )),
        _ => Ok(map),
    }
}

fn spool(name: &str, from: &mut dyn Read, progress: impl Fn(u64)) -> Result<Map> {
    let mut file =
        tempfile::tempfile().map_err(|error| Error::io("make a temporary file", error))?;
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
            .map_err(|error| Error::io("write a temporary file", error))?;
        so_far += len as u64;
        progress(so_far);
    }
    Map::new(name.into(), &file)
}
