//! Options of requests.

use std::time::Duration;

use crate::{Environment, Observer};

/// Credentials, time limits, retries and an observer of requests to a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StoreOptions {
    /// Environment variables with credentials, regions and endpoints.
    pub environment: Environment,
    /// Time limits and retries.
    pub limits: Limits,
    /// Receives every finished request.
    pub observer: Option<Observer>,
}

impl StoreOptions {
    /// Returns default options with these variables instead of the variables of the
    /// process.
    #[must_use]
    pub fn with_environment(environment: Environment) -> Self {
        Self {
            environment,
            ..Self::default()
        }
    }
}

/// Time limits and retries of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Number of times a request is retried after a transient failure: a broken
    /// connection, a stall, or status 408, 429 or 5xx. 3 by default.
    pub retries: usize,
    /// Time limit for connecting. 20 seconds by default.
    pub connect_timeout: Duration,
    /// The longest wait for the next byte of a response. On Linux, it is also the
    /// longest time that an upload waits for the server to accept a byte; elsewhere, a
    /// part must be sent within 10 minutes. 30 seconds by default.
    pub idle_timeout: Duration,
    /// Time after which a failed read is not retried. Writes have four times as long.
    /// 55 seconds by default.
    pub give_up_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            retries: 3,
            connect_timeout: Duration::from_secs(20),
            idle_timeout: Duration::from_secs(30),
            give_up_after: Duration::from_secs(55),
        }
    }
}
