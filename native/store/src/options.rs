//! Options for requests.

use std::time::Duration;

use crate::{Environment, Observer};

/// Credentials, time limits and retries of requests to a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StoreOptions {
    /// Where credentials, regions and endpoints come from.
    pub environment: Environment,
    /// Time limits and retries.
    pub limits: Limits,
    /// What is told of every request.
    pub observer: Option<Observer>,
}

impl StoreOptions {
    /// Returns default options with these variables instead of those of the
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
    /// Number of times a request is repeated after a failure that may pass: a
    /// connection that breaks, a stall, status 408, 429 or 5xx. 3 by default.
    pub retries: usize,
    /// Time limit of connecting. 20 seconds by default.
    pub connect_timeout: Duration,
    /// The longest time without a byte of an answer, and without a byte of an
    /// upload that the server accepts (the latter on Linux; elsewhere a part has
    /// 10 minutes). 30 seconds by default.
    pub idle_timeout: Duration,
    /// Time after which a failed read is not repeated any more. Uploads of parts
    /// have four times that. 55 seconds by default.
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
