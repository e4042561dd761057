//! Files on web servers and in hubs, for code that blocks.

#[cfg(feature = "http")]
pub use linked::{check_absent, put_watched};
#[cfg(feature = "http")]
pub(super) use linked::{download, open_ranged, small, without_ranges};
#[cfg(not(feature = "http"))]
pub use missing::{check_absent, put_watched};
#[cfg(not(feature = "http"))]
pub(super) use missing::{download, open_ranged, small, without_ranges};

#[cfg(feature = "http")]
mod linked {
    use crate::source::http;
    pub use crate::source::http::{check_absent, put_watched};
    use crate::source::{HttpOptions, Local, Remote, Source};
    use crate::{Error, Result};

    /// Opens the file at `url` and reads its first `head_len_bytes` bytes. Returns `None`
    /// if the server ignores ranges.
    pub fn open_ranged(
        url: &str,
        head_len_bytes: u64,
        http: &HttpOptions,
    ) -> Result<Option<Box<dyn Source>>> {
        let remote = Remote::open_ranged(url, head_len_bytes, http)?;
        Ok(remote.map(|remote| Box::new(remote) as Box<dyn Source>))
    }

    fn wait<T>(http: &HttpOptions, work: impl Future<Output = Result<T>>) -> Result<T> {
        http::wait_unless_cancelled(&http.cancel_token, work)
    }

    /// Reads a whole file, whose server ignores ranges, into memory.
    pub fn without_ranges(url: &str, http: &HttpOptions) -> Result<Local> {
        wait(http, http::without_ranges(url, http))
    }

    /// Downloads the file at `url` into a temporary file.
    pub fn download(
        url: &str,
        http: &HttpOptions,
        progress: &dyn Fn(u64, Option<u64>),
    ) -> Result<Local> {
        wait(http, http::download(url, http, progress))
    }

    /// Reads a small file. Returns its bytes and, if this version of the file has its
    /// own address, that address. A file of more than `max_bytes` is refused with the
    /// error `too_long`.
    pub fn small(
        url: &str,
        http: &HttpOptions,
        max_bytes: u64,
        too_long: impl FnOnce() -> Error,
    ) -> Result<(Vec<u8>, Option<String>)> {
        let small = wait(http, http::small(url, http, max_bytes, too_long))?;
        Ok((small.bytes, small.pinned))
    }
}

#[cfg(not(feature = "http"))]
mod missing {
    use std::fs::File;

    use crate::source::{HttpOptions, Local, Source};
    use crate::{Error, Result, display};

    pub fn open_ranged(url: &str, _: u64, _: &HttpOptions) -> Result<Option<Box<dyn Source>>> {
        Err(error(url))
    }

    pub fn without_ranges(url: &str, _: &HttpOptions) -> Result<Local> {
        Err(error(url))
    }

    pub fn download(url: &str, _: &HttpOptions, _: &dyn Fn(u64, Option<u64>)) -> Result<Local> {
        Err(error(url))
    }

    pub fn small(
        url: &str,
        _: &HttpOptions,
        _: u64,
        _: impl FnOnce() -> Error,
    ) -> Result<(Vec<u8>, Option<String>)> {
        Err(error(url))
    }

    pub fn check_absent(url: &str, _: &HttpOptions) -> Result<()> {
        Err(error(url))
    }

    /// Fails, because writing needs the feature `http`.
    ///
    /// # Errors
    /// Always [`Error::Usage`].
    pub fn put_watched(
        url: &str,
        _: &File,
        _: u64,
        _: &HttpOptions,
        _: bool,
        _: &dyn Fn(u64) -> Result<()>,
    ) -> Result<()> {
        Err(error(url))
    }

    /// Returns the error for an address on a server, which this build cannot read.
    fn error(url: &str) -> Error {
        Error::Usage(format!(
            "{} is on a server, and this program was built without HTTP; use a local file, or \
             enable the feature `http` of the crate zstn",
            display::address(url)
        ))
    }
}
