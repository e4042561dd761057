//! Options for reading over HTTP.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use zstn::source::{HttpObserver, HttpOptions, HttpRequest};
use zstn::{Error, Location, Result};

/// Headers and limits for the HTTP requests of one call, passed by `zstn/_sources.py`.
#[derive(FromPyObject, Clone, Default)]
#[pyo3(from_item_all)]
pub struct Http {
    token: Option<String>,
    headers: BTreeMap<String, String>,
    retries: Option<u32>,
    timeout: Option<f64>,
    max_full_download_bytes: Option<u64>,
    is_logged: bool,
}

/// Logs requests through `zstn._log`.
struct Logger;

impl Logger {
    fn log(message: &str) {
        static LOG: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        // An exception in the logger must not fail the work.
        let _ = Python::try_attach(|py| {
            LOG.import(py, "zstn._log", "request")?
                .call1((message,))
                .map(drop)
        });
    }
}

impl HttpObserver for Logger {
    fn request(&self, request: &HttpRequest) {
        let HttpRequest {
            method, host, path, ..
        } = request;
        let range = request.range.as_deref().unwrap_or("all");
        let status = request
            .status
            .map_or("no answer".into(), |status| status.to_string());
        let milliseconds = request.elapsed.as_millis();
        let attempt = match request.attempt {
            0 | 1 => String::new(),
            attempt => format!(", attempt {attempt}"),
        };
        let received = request.received_bytes;
        Self::log(&format!(
            "{method} {host}{path} {range}: {status}, {received} bytes in {milliseconds} ms{attempt}"
        ));
    }

    fn read_whole(&self, file: &str, len_bytes: u64) {
        Self::log(&format!(
            "{file}: the server ignores ranges; read whole, {len_bytes} bytes"
        ));
    }
}

impl Http {
    /// Returns the options for an input at `address`, if it has one. Token and headers
    /// are sent only to the origin of that address.
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
        if self.is_logged {
            options = options.observer(Arc::new(Logger));
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
            options = options.token(&origin, token)?;
        }
        for (name, value) in &self.headers {
            options = options.header(&origin, name, value)?;
        }
        Ok(options)
    }
}
