//! Options for addresses.

use std::collections::BTreeMap;
use std::time::Duration;

use pyo3::prelude::*;
use zstn::source::HttpOptions;
use zstn::{Error, Location, Result};

/// Headers and limits for the addresses of one call, made in
/// `zstn/_sources.py`.
#[derive(FromPyObject, Clone, Default)]
#[pyo3(from_item_all)]
pub struct Http {
    token: Option<String>,
    headers: BTreeMap<String, String>,
    retries: Option<u32>,
    timeout: Option<f64>,
    max_full_download_bytes: Option<u64>,
}

impl Http {
    /// Returns the options for reading `address`, if it is one. Token and
    /// headers go to its origin only.
    pub fn options(&self, address: Option<&str>) -> Result<HttpOptions> {
        let mut options = HttpOptions::default();
        if let Some(retries) = self.retries {
            options.retries = retries;
        }
        if let Some(seconds) = self.timeout {
            let time = Duration::try_from_secs_f64(seconds);
            options.idle_timeout =
                time.map_err(|_| Error::Usage(format!("a timeout of {seconds} seconds")))?;
        }
        if let Some(bytes) = self.max_full_download_bytes {
            options.max_full_download_bytes = bytes;
        }
        if self.token.is_none() && self.headers.is_empty() {
            return Ok(options);
        }
        let origin = address.and_then(|address| Location::url(address).origin());
        let Some(origin) = origin else {
            return Err(Error::Usage(
                "a token or headers were given, and the input is not read over HTTP".into(),
            ));
        };
        if let Some(token) = &self.token {
            options = options.with_token(&origin, token)?;
        }
        for (name, value) in &self.headers {
            options = options.with_header(&origin, name, value)?;
        }
        Ok(options)
    }
}
