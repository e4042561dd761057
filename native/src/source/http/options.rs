//! Options for reading files on web servers.

use std::time::Duration;

use crate::CancelToken;
#[cfg(feature = "http")]
use zstn_net::client::Connections;

#[cfg(feature = "http")]
use super::observer::Observer;
#[cfg(feature = "http")]
use super::secrets::Secrets;
#[cfg(feature = "http")]
use crate::source::hub::Login;

/// Time limits, retries and headers for http(s) addresses. Without the feature `http`,
/// they have no effect.
///
/// ```
/// let mut options = zstn::source::HttpOptions::default();
/// options.retries = 0;
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HttpOptions {
    /// The number of retries after a failure that may be temporary: a broken
    /// connection, a stall, or the status 408, 429 or 5xx. An attempt that received at
    /// least 1 MiB is not counted. The default is 3.
    pub retries: u32,
    /// The time limit for connecting. The default is 20 seconds.
    pub connect_timeout: Duration,
    /// The time limit for a response, including redirects, and for every 32 KiB of a
    /// body. The default is 30 seconds.
    pub idle_timeout: Duration,
    /// The time that a read may spend without progress, in all of its attempts and
    /// between them, before it fails. It starts again with every MiB. If a server
    /// requests a longer wait (`Retry-After`), the read fails immediately. The default
    /// is 55 seconds.
    pub give_up_after: Duration,
    /// The maximum wait before the first retry; the maximum doubles for each further
    /// retry, up to 10 seconds. The default is 300 ms.
    pub first_backoff: Duration,
    /// The maximum length in bytes of a download whose server does not announce its
    /// length: without a limit, it might only end when the disk is full. The default is
    /// 64 GiB.
    pub max_unsized_bytes: u64,
    /// The maximum length in bytes of a file that is read as a whole when single
    /// tensors are requested but the server ignores range requests. The default is 64
    /// MiB, as in the npm package; with 0, such a server is an error.
    pub max_full_download_bytes: u64,
    /// Ends the reads of blocking code.
    pub(crate) cancel_token: CancelToken,
    #[cfg(feature = "http")]
    pub(super) secrets: Secrets,
    #[cfg(feature = "http")]
    pub(super) observer: Option<Observer>,
    /// The connections, which clones share.
    #[cfg(feature = "http")]
    pub(super) connections: Connections,
    /// The address and token of the hub, if they differ from the defaults of the
    /// process.
    #[cfg(feature = "http")]
    pub(super) hub: Option<(String, Login)>,
}

#[cfg(feature = "http")]
impl HttpOptions {
    /// Returns the time limit for connecting. It is shorter than the time limit for a
    /// response, so that a server that cannot be reached is recognised as such.
    pub(super) fn connecting(&self) -> Duration {
        self.connect_timeout.min(self.idle_timeout.mul_f32(0.9))
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
            max_full_download_bytes: 64 << 20,
            cancel_token: CancelToken::new(),
            #[cfg(feature = "http")]
            secrets: Secrets::default(),
            #[cfg(feature = "http")]
            observer: None,
            #[cfg(feature = "http")]
            connections: Connections::default(),
            #[cfg(feature = "http")]
            hub: None,
        }
    }
}
