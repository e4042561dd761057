//! The HTTP client that the `object_store` crate uses, the runtime on which its
//! requests run, and the receipt of response bodies: exactly the requested
//! bytes, at a minimum pace.

use std::future::Future;
use std::io;
use std::time::Duration;

use futures_util::TryStreamExt;
use object_store::client::{ClientConfigKey, HttpClient, HttpConnector};
use object_store::{Attribute, BackoffConfig, ClientOptions, GetResult, RetryConfig};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};
use zstn_net::client::builder;
use zstn_net::proxy::Proxies;
use zstn_net::retry::{FIRST_BACKOFF, MAX_BACKOFF};

use crate::observer::{Observed, Observer};
use crate::{Error, RequestLimits, Result, StoreOptions};

/// Time limit for uploading a part when the server accepts it slowly but without
/// stalling. A client cannot see how much of a request has been sent.
const SLOWEST_PART: Duration = Duration::from_secs(600);

/// The purpose of a connection, which determines its time limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Read,
    Write,
}

/// Creates HTTP clients with this crate's time limits.
#[derive(Debug)]
pub(crate) struct Connector {
    limits: RequestLimits,
    observer: Option<Observer>,
    purpose: Purpose,
}

impl Connector {
    pub(crate) fn new(options: &StoreOptions, purpose: Purpose) -> Self {
        Self {
            limits: options.limits.clone(),
            observer: options.observer.clone(),
            purpose,
        }
    }

    fn build(
        &self,
        allow_http: bool,
    ) -> Result<reqwest::Client, Box<dyn std::error::Error + Send + Sync>> {
        let proxies = Proxies::of_process();
        proxies.check(allow_http)?;
        let builder = builder(&proxies)?
            .https_only(!allow_http)
            .connect_timeout(self.limits.connect_timeout)
            .read_timeout(match self.purpose {
                Purpose::Read => self.limits.idle_timeout,
                Purpose::Write => SLOWEST_PART,
            });
        #[cfg(target_os = "linux")]
        let builder = builder.tcp_user_timeout(self.limits.idle_timeout);
        Ok(builder.build()?)
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allow_http = options.get_config_value(&ClientConfigKey::AllowHttp);
        let client = self.build(allow_http.as_deref() == Some("true"));
        client
            .map(|client| HttpClient::new(Observed::new(client, self.observer.clone())))
            .map_err(|source| object_store::Error::Generic {
                store: "client",
                source,
            })
    }
}

pub(crate) fn retries(limits: &RequestLimits, purpose: Purpose) -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: FIRST_BACKOFF,
            max_backoff: MAX_BACKOFF,
            base: 2.0,
        },
        max_retries: limits.retries,
        retry_timeout: match purpose {
            Purpose::Read => limits.give_up_after,
            Purpose::Write => limits.give_up_after * 4,
        },
    }
}

/// Number of bytes that have to arrive within the idle time. Without a minimum, a
/// server that sends a byte now and then would never run into a time limit.
const PACE_BYTES: usize = 32 << 10;

/// The reason why a body could not be received completely.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The request failed in the `object_store` crate.
    Store(object_store::Error),
    /// The body has this content encoding, so its bytes are not the object's.
    Encoded(String),
    /// The body is longer than the requested range.
    TooLong,
    /// The body ended early, or fewer than [`PACE_BYTES`] arrived within the idle time.
    /// The rest can be requested again.
    Halted,
}

/// Appends a body of `len_bytes` to `into`.
///
/// # Errors
/// A [`Fault`]; bytes received before it remain in `into`.
pub(crate) async fn receive(
    result: GetResult,
    len_bytes: u64,
    idle: Duration,
    into: &mut Vec<u8>,
) -> Result<(), Fault> {
    let coding = result.attributes.get(&Attribute::ContentEncoding);
    if let Some(coding) = coding.filter(|coding| !coding.eq_ignore_ascii_case("identity")) {
        return Err(Fault::Encoded(coding.to_string()));
    }
    let len = usize::try_from(len_bytes).map_err(|_| Fault::TooLong)?;
    into.try_reserve_exact(len).map_err(|error| {
        Fault::Store(object_store::Error::Generic {
            store: "memory",
            source: Box::new(error),
        })
    })?;
    let end = into.len() + len;
    let mut body = result.into_stream();
    let (mut mark, mut deadline) = (into.len(), Instant::now() + idle);
    loop {
        let Ok(next) = timeout_at(deadline, body.try_next()).await else {
            return Err(Fault::Halted);
        };
        let Some(chunk) = next.map_err(Fault::Store)? else {
            break;
        };
        if chunk.len() > end - into.len() {
            return Err(Fault::TooLong);
        }
        into.extend_from_slice(&chunk);
        if into.len() - mark >= PACE_BYTES {
            (mark, deadline) = (into.len(), Instant::now() + idle);
        }
    }
    match into.len() == end {
        true => Ok(()),
        false => Err(Fault::Halted),
    }
}

/// Returns the runtime of this process, and starts it on the first call.
pub(crate) fn shared() -> Result<&'static Handle> {
    zstn_net::runtime::handle().map_err(not_started)
}

/// Runs `work` on this thread, which may belong to another runtime, and waits for its
/// result.
pub(crate) fn wait<T>(work: impl Future<Output = T>) -> Result<T> {
    zstn_net::runtime::block_on(work).map_err(not_started)
}

/// Makes connections and timers available to `work`, whatever executor polls it.
pub(crate) async fn within<T>(work: impl Future<Output = T>) -> Result<T> {
    zstn_net::runtime::within(work).await.map_err(not_started)
}

fn not_started(source: io::Error) -> Error {
    Error::Io {
        action: "start threads for requests".into(),
        source,
    }
}
