//! Files on web servers, read by range or as a whole.
//!
//! All of this is asynchronous; [`wait`] lets blocking code call it. Without the feature
//! `http`, only the options exist.

#[cfg(feature = "http")]
use std::future::Future;

#[cfg(feature = "http")]
mod answer;
#[cfg(feature = "http")]
mod client;
#[cfg(feature = "http")]
mod failure;
#[cfg(feature = "http")]
mod observer;
mod options;
mod origin;
#[cfg(feature = "http")]
mod put;
#[cfg(feature = "http")]
mod range;
#[cfg(feature = "http")]
mod remote;
#[cfg(feature = "http")]
mod retry;
#[cfg(feature = "http")]
mod secrets;
#[cfg(feature = "http")]
mod validator;
#[cfg(feature = "http")]
mod whole_file;

#[cfg(feature = "http")]
pub use observer::{HttpObserver, HttpRequest};
pub use options::HttpOptions;
pub(super) use origin::origin;
#[cfg(feature = "http")]
pub use put::{check_absent, put, put_watched};
#[cfg(feature = "http")]
pub use remote::Remote;
#[cfg(feature = "http")]
pub use retry::{Attempts, Failure};
#[cfg(feature = "http")]
pub(super) use whole_file::{download, small, without_ranges};

/// Opens the file at `url` for reading ranges without blocking a thread. If its server
/// ignores ranges, the file is read into memory.
#[cfg(feature = "http")]
pub(super) async fn open_async(
    url: &str,
    http: &HttpOptions,
) -> crate::Result<std::sync::Arc<dyn super::AsyncSource>> {
    use std::sync::Arc;

    use super::async_source::within;
    use super::{AsyncSource, BlockingSource};

    within(async move {
        let head_len_bytes = zstn_core::limits::HEAD_LEN_BYTES;
        if let Some(remote) = Remote::begin_ranged(url, head_len_bytes, http).await? {
            let remote: Arc<dyn AsyncSource> = Arc::new(remote);
            return Ok(remote);
        }
        let whole = without_ranges(url, http).await?;
        let whole: Arc<dyn AsyncSource> = Arc::new(BlockingSource::new(whole));
        Ok(whole)
    })
    .await
}

/// Runs requests on this thread, which waits for their result.
#[cfg(feature = "http")]
pub fn wait<T, E: From<crate::Error>>(work: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let done = zstn_net::runtime::block_on(work);
    done.map_err(|error| crate::Error::io("start threads for requests", error))?
}

/// Runs reads like [`wait`] until `token` is cancelled, which ends their requests.
///
/// # Errors
/// [`Error::Cancelled`](crate::Error::Cancelled); the errors of `work`.
#[cfg(feature = "http")]
pub(super) fn wait_unless_cancelled<T>(
    token: &crate::CancelToken,
    work: impl Future<Output = crate::Result<T>>,
) -> crate::Result<T> {
    const CHECK_EVERY: std::time::Duration = std::time::Duration::from_millis(50);
    wait(async {
        let mut work = std::pin::pin!(work);
        loop {
            match tokio::time::timeout(CHECK_EVERY, work.as_mut()).await {
                Ok(done) => return done,
                Err(_) => token.check()?,
            }
        }
    })
}

/// Trusts the certificates in a PEM file in addition, for all later connections of this
/// process to web servers, hubs and object stores. The certificates of the system, of
/// `SSL_CERT_FILE` and of `SSL_CERT_DIR` are always trusted.
///
/// # Errors
/// [`Error::Io`](crate::Error::Io) for a file that cannot be read or contains no
/// certificate.
#[cfg(feature = "http")]
pub fn trust_certificates(file: &std::path::Path) -> crate::Result<()> {
    let fail = crate::Error::file("use the certificates in", file);
    zstn_net::tls::trust(file).map_err(fail)
}
