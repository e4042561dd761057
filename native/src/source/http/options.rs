//! Options for reading files on web servers.

use std::sync::Arc;
use std::time::Duration;

use ureq::http::header;

use super::client;
use super::observer::{HttpObserver, Observer};
use super::secrets::{Secrets, origin};
use super::transport::Transport;
use crate::source::hub::{self, HubFile, Login};
use crate::source::scheme::Scheme;
use crate::{Error, Result, display};

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
    /// The longest file that is read whole where single tensors are wanted and
    /// its server ignores range requests, in bytes. 64 MiB by default, as in the
    /// npm package; with 0 such a server is an error.
    pub max_full_download_bytes: u64,
    pub(super) secrets: Secrets,
    pub(super) observer: Option<Observer>,
    /// Connections, which clones share.
    pub(super) transport: Transport,
    /// Address and token of the hub, if they are not those of the process.
    hub: Option<(String, Login)>,
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

    /// Reads addresses of the scheme `hf` from the hub at `endpoint`, with
    /// `token`, which no other origin receives.
    ///
    /// By default the hub is that of `$HF_ENDPOINT`, or <https://huggingface.co>,
    /// and the token that of `$HF_TOKEN`, or of the file that `hf auth login`
    /// writes (`$HF_TOKEN_PATH`, `$HF_HOME/token`). With
    /// `HF_HUB_DISABLE_IMPLICIT_TOKEN=1` none is sent.
    ///
    /// # Errors
    /// [`Error::Usage`](crate::Error::Usage) if `endpoint` is not an http(s)
    /// address.
    pub fn with_hub(mut self, endpoint: &str, token: Option<&str>) -> Result<Self> {
        check_endpoint(endpoint)?;
        let endpoint = hub::without_slash(endpoint).into();
        self.hub = Some((endpoint, Login::of(token)));
        Ok(self)
    }

    /// Tells `observer` of every request, those to object stores included, once
    /// for each that a redirect or a failure makes necessary.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn HttpObserver>) -> Self {
        self.observer = Some(Observer::new(observer));
        self
    }

    /// Returns what tells the observer of requests to stores.
    #[cfg(feature = "store")]
    pub(in crate::source) fn observer_of_stores(&self) -> Option<zstn_store::Observer> {
        Some(self.observer.as_ref()?.of_stores().clone())
    }

    /// Returns the same limits without headers, and without a hub.
    #[doc(hidden)]
    #[must_use]
    pub fn limits(&self) -> Self {
        Self {
            secrets: Secrets::default(),
            hub: None,
            ..self.clone()
        }
    }

    /// Returns the file at an address in a hub, and adds the hub's token to the
    /// secrets. A header of that name that was given for the hub stays.
    pub(super) fn log_in(&mut self, address: &str) -> Result<HubFile> {
        hub::offline::check(&display::address(address))?;
        let (endpoint, login) = match self.hub.take() {
            Some(hub) => hub,
            None => (hub::endpoint(), Login::of_process()?),
        };
        check_endpoint(&endpoint)?;
        let file = HubFile::new(address, endpoint, login)?;
        if let Some(token) = file.login().token()
            && !self.secrets.has(file.endpoint(), &header::AUTHORIZATION)
        {
            let value = format!("Bearer {token}");
            self.secrets.add(file.endpoint(), "Authorization", &value)?;
        }
        Ok(file)
    }
}

fn check_endpoint(endpoint: &str) -> Result<()> {
    match (Scheme::find(endpoint), origin(endpoint)) {
        (Some(Scheme::Http), Some(_)) => Ok(()),
        _ => Err(Error::Usage(
            "the address of the hub, which HF_ENDPOINT may give, has to be like \
             https://huggingface.co"
                .into(),
        )),
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
            secrets: Secrets::default(),
            observer: None,
            transport: Transport::new(client::configuration),
            hub: None,
        }
    }
}
