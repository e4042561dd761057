//! The HTTP client that the `object_store` crate uses.

use std::time::Duration;

use object_store::client::{ClientConfigKey, HttpClient, HttpConnector};
use object_store::{BackoffConfig, ClientOptions, RetryConfig};
use zstn_net::client::builder;
use zstn_net::proxy::Proxies;
use zstn_net::retry::{FIRST_BACKOFF, MAX_BACKOFF};

use crate::observer::{Observed, Observer};
use crate::{Limits, StoreOptions};

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
    limits: Limits,
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

pub(crate) fn retries(limits: &Limits, purpose: Purpose) -> RetryConfig {
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
