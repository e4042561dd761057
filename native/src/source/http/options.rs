//! Options for reading files on web servers.

use std::time::Duration;

use super::secrets::Secrets;
use crate::Result;

/// Time limits, retries and headers for http(s) addresses.
///
/// ```
/// # fn main() -> zstn::Result<()> {
/// let mut options = zstn::source::HttpOptions::default();
/// options.retries = 0;
/// let options = options.with_token("https://example.org", "the token")?;
/// assert!(!format!("{options:?}").contains("the token"));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HttpOptions {
    /// Number of times a request is repeated after a failure that may pass:
    /// a connection that breaks, a stall, status 408, 429 or 5xx. An attempt
    /// that received 1 MiB or more is not counted. 3 by default.
    pub retries: u32,
    /// Time limit of connecting. 20 seconds by default.
    pub connect_timeout: Duration,
    /// Time limit of an answer, redirects included, and of every 32 KiB of a
    /// body. 30 seconds by default.
    pub idle_timeout: Duration,
    /// Time that a read may spend without progress, in all its attempts and
    /// between them, before it fails; starts again with every MiB. A server that
    /// asks for a longer wait (`Retry-After`) is reported at once. 55 seconds by
    /// default.
    pub give_up_after: Duration,
    /// The first wait before a retry is at most this long; each later one at
    /// most twice the one before, up to 10 seconds. 300 ms by default.
    pub first_backoff: Duration,
    /// The longest download from a server that does not announce its length,
    /// in bytes; it would end only when the disk is full. 64 GiB by default.
    pub max_unsized_bytes: u64,
    pub(super) secrets: Secrets,
}

impl HttpOptions {
    /// Sends `Authorization: Bearer TOKEN` to the origin (scheme, host and port)
    /// of `address`, as [`HttpOptions::with_header`] sends a header.
    ///
    /// # Errors
    /// Those of [`HttpOptions::with_header`].
    pub fn with_token(self, address: &str, token: &str) -> Result<Self> {
        self.with_header(address, "Authorization", &format!("Bearer {token}"))
    }

    /// Sends a header with requests to the origin (scheme, host and port) of
    /// `address`. Other origins do not receive it, nor does anything that is
    /// requested after a redirect to another origin. `Debug` output and error
    /// messages do not contain the value. Another header of the same name for
    /// the same origin is replaced.
    ///
    /// # Errors
    /// [`Error::Usage`](crate::Error::Usage) if `address` is not an http(s)
    /// address, if name or value have characters that a header must not have,
    /// and for headers that the reader sets itself, such as `Range`.
    pub fn with_header(mut self, address: &str, name: &str, value: &str) -> Result<Self> {
        self.secrets.add(address, name, value)?;
        Ok(self)
    }
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            retries: 3,
            connect_timeout: Duration::from_secs(20),
            idle_timeout: Duration::from_secs(30),
            give_up_after: Duration::from_secs(55),
            first_backoff: Duration::from_millis(300),
            max_unsized_bytes: 64 << 30,
            secrets: Secrets::default(),
        }
    }
}
