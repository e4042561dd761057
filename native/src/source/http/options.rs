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
/// let options = options.token("https://example.org", "the token")?;
/// assert!(!format!("{options:?}").contains("the token"));
/// # Ok(())
/// # }
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
    pub(super) secrets: Secrets,
    pub(super) observer: Option<Observer>,
    /// The connections, which clones share.
    pub(super) transport: Transport,
    /// The address and token of the hub, if they differ from the defaults of the
    /// process.
    hub: Option<(String, Login)>,
}

impl HttpOptions {
    /// Sends `Authorization: Bearer TOKEN` to the origin (scheme, host and port) of
    /// `address`, in the same way as [`HttpOptions::header`].
    ///
    /// # Errors
    /// The errors of [`HttpOptions::header`].
    pub fn token(self, address: &str, token: &str) -> Result<Self> {
        self.header(address, "Authorization", &format!("Bearer {token}"))
    }

    /// Sends a header with requests to the origin (scheme, host and port) of `address`.
    /// Other origins do not receive it, and neither does any request after a redirect
    /// to another origin. `Debug` output and error messages do not contain the value. A
    /// header with the same name for the same origin is replaced.
    ///
    /// # Errors
    /// [`Error::Usage`](crate::Error::Usage) if `address` is not an http(s) address, if
    /// the name or the value contains invalid characters, or if the reader sets the
    /// header itself, as it does with `Range`.
    pub fn header(mut self, address: &str, name: &str, value: &str) -> Result<Self> {
        self.secrets.add(address, name, value)?;
        Ok(self)
    }

    /// Reads addresses with the scheme `hf` from the hub at `endpoint`, using `token`,
    /// which no other origin receives.
    ///
    /// By default the hub is `$HF_ENDPOINT`, or <https://huggingface.co>. The default
    /// token is `$HF_TOKEN`, or the one in the file that `hf auth login` writes
    /// (`$HF_TOKEN_PATH`, `$HF_HOME/token`). If `HF_HUB_DISABLE_IMPLICIT_TOKEN=1` is
    /// set, no token is sent.
    ///
    /// # Errors
    /// [`Error::Usage`](crate::Error::Usage) if `endpoint` is not an http(s) address.
    pub fn hub(mut self, endpoint: &str, token: Option<&str>) -> Result<Self> {
        check_endpoint(endpoint)?;
        let endpoint = hub::without_slash(endpoint).into();
        self.hub = Some((endpoint, Login::of(token)));
        Ok(self)
    }

    /// Reports every request to `observer`, including requests to object stores,
    /// redirects and retries.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn HttpObserver>) -> Self {
        self.observer = Some(Observer::new(observer));
        self
    }

    /// Returns the observer for requests to stores.
    #[cfg(feature = "store")]
    pub(in crate::source) fn observer_of_stores(&self) -> Option<zstn_store::Observer> {
        Some(self.observer.as_ref()?.of_stores().clone())
    }

    /// Returns the same options without headers and hub.
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
    /// secrets. If the caller already gave an `Authorization` header for the hub, that
    /// one is kept.
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
