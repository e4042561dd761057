//! Arguments of Python functions: inputs, outputs, options for reading over HTTP, and
//! the keywords that all functions for whole checkpoints accept.

use std::collections::BTreeMap;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use zstn::convert::TargetKind;
use zstn::source::{HttpObserver, HttpOptions, HttpRequest};
use zstn::{Effort, Error, Input, Job, Location, Result, Sink, Source};

use crate::engine::{self, Threads};
use crate::object::{Memory, MemorySource, ObjectSource, ObjectWriter};
use crate::progress::{Lease, Watch};

/// An input argument, which can be opened several times.
#[derive(Clone)]
pub struct Argument {
    pub input: Input,
    /// The URL, if the input is one.
    pub address: Option<String>,
    /// True if the input is memory that the caller may change and that is read without
    /// a lease.
    pub borrows: bool,
}

impl Argument {
    /// Converts an argument. `zstn._sources.resolve` first converts it to the name of a
    /// type and a value. The caller's objects and memory are only read while the lease is
    /// valid.
    pub fn new(argument: &Bound<'_, PyAny>, lease: Option<&Lease>) -> PyResult<Self> {
        static RESOLVE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let py = argument.py();
        let resolve = RESOLVE.import(py, "zstn._sources", "resolve")?;
        let (kind, value): (String, Bound<'_, PyAny>) = resolve.call1((argument,))?.extract()?;
        let mut borrows = false;
        let input = match &*kind {
            "path" => Input::from(value.extract::<PathBuf>()?),
            "url" => {
                let address: String = value.extract()?;
                return Ok(Self {
                    input: Location::url(&address).into(),
                    address: Some(address),
                    borrows: false,
                });
            }
            "memory" => {
                let memory = Memory::new(&value)?;
                // `bytes` cannot change, so no lease is needed.
                let lease = lease.filter(|_| memory.may_change());
                borrows = memory.may_change() && lease.is_none();
                Input::source(MemorySource {
                    name: "bytes in memory".into(),
                    memory,
                    lease: lease.cloned(),
                })
            }
            "object" => Input::source(ObjectSource::new(&value, lease)?),
            _ => return Err(PyTypeError::new_err(format!("an input of the kind {kind}"))),
        };
        Ok(Self {
            input,
            address: None,
            borrows,
        })
    }

    /// Converts one argument, a list or tuple of them, or `None`.
    pub fn several(
        argument: Option<&Bound<'_, PyAny>>,
        lease: Option<&Lease>,
    ) -> PyResult<Vec<Self>> {
        let Some(argument) = argument else {
            return Ok(Vec::new());
        };
        if let Ok(list) = argument.extract::<Vec<Bound<'_, PyAny>>>()
            && (argument.is_instance_of::<pyo3::types::PyList>()
                || argument.is_instance_of::<pyo3::types::PyTuple>())
        {
            return list.iter().map(|one| Self::new(one, lease)).collect();
        }
        Ok(vec![Self::new(argument, lease)?])
    }
}

/// The destination of an output.
pub enum Destination {
    Path(PathBuf),
    Url(String),
    /// An object with a method `write`.
    Object(Py<PyAny>),
}

/// Number of bytes passed to an object at a time, which keeps the number of calls low
/// even if the tensors are small.
const PIECE_BYTES: usize = 1 << 20;

/// Returns a writer to an object with a method `write`, which is used only while
/// `watch` has not been stopped.
pub fn buffered(object: Py<PyAny>, watch: &Watch) -> BufWriter<ObjectWriter> {
    BufWriter::with_capacity(PIECE_BYTES, ObjectWriter::new(object, watch.lease()))
}

impl Destination {
    pub fn new(argument: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(text) = argument.extract::<String>()
            && Location::is_url(&text)
        {
            return Ok(Self::Url(text));
        }
        match argument.extract() {
            Ok(path) => Ok(Self::Path(path)),
            Err(_) if argument.hasattr("write")? => Ok(Self::Object(argument.clone().unbind())),
            Err(_) => Err(PyTypeError::new_err(format!(
                "an output is a path, an address or a binary file object, not {}",
                argument.get_type().name()?
            ))),
        }
    }

    /// Returns whether the output is a local file. Writing to a server, an object or a
    /// pipe may wait for another program.
    pub fn is_file(&self) -> bool {
        match self {
            Self::Path(path) => path.metadata().map_or(true, |found| found.is_file()),
            Self::Url(_) | Self::Object(_) => false,
        }
    }

    pub fn sink(self, overwrite: bool, watch: &Watch) -> Sink<'static> {
        let sink = match self {
            Self::Path(path) => Sink::path(path),
            Self::Url(url) => Sink::url(url),
            Self::Object(object) => Sink::writer(buffered(object, watch)),
        };
        sink.overwrite(overwrite)
    }

    /// Returns the file format that the extension of the name implies.
    pub fn kind(&self) -> Option<TargetKind> {
        match self {
            Self::Path(path) => TargetKind::from_path(path),
            // The name excludes the query of the URL, which may be a signature.
            Self::Url(url) => match Location::url(url).file_name() {
                Some(name) => TargetKind::from_path(Path::new(&name)),
                None => TargetKind::from_path(Path::new(url)),
            },
            Self::Object(_) => None,
        }
    }
}

/// Returns whether a reader of `sources` can be used after a fork. Remote sources
/// cannot, because they share a connection with the parent process.
pub fn survives_fork<'a>(mut sources: impl Iterator<Item = &'a dyn Source>) -> bool {
    !sources.any(|source| source.is_remote())
}

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

/// An observer that logs requests through `zstn._log`.
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
                time.map_err(|_| Error::Usage(format!("timeout cannot be {seconds} seconds")))?;
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

/// Returns the effort with this name.
pub fn effort(name: &str) -> PyResult<Effort> {
    match name {
        "fast" => Ok(Effort::Fast),
        "balanced" => Ok(Effort::Balanced),
        "max" => Ok(Effort::Max),
        _ => Err(PyValueError::new_err(format!(
            "{name:?} is not an effort; use \"fast\", \"balanced\" or \"max\""
        ))),
    }
}

/// The keyword arguments that all functions for whole checkpoints accept.
pub struct Common {
    pub threads: Threads,
    pub memory: Option<u64>,
    pub overwrite: bool,
    pub progress: Option<Py<PyAny>>,
    pub http: Http,
}

impl Common {
    /// Returns the job of a call whose input has the `address`, if it has one.
    pub fn job<'a>(&self, address: Option<&str>, watch: &'a Watch) -> Result<Job<'a>> {
        let job = Job::new()
            .engine(&engine::with_threads(self.threads)?)
            .http(self.http.options(address)?)
            .progress(watch)
            .cancel_token(watch.token());
        Ok(match self.memory {
            Some(bytes) => job.memory_bytes(bytes),
            None => job,
        })
    }
}

// The derived implementation would add the name of the field to error messages.
impl<'py> FromPyObject<'_, 'py> for Common {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self {
            threads: given.get_item("threads")?.extract()?,
            memory: given.get_item("memory")?.extract()?,
            overwrite: given.get_item("overwrite")?.extract()?,
            progress: given.get_item("progress")?.extract()?,
            http: given.get_item("http")?.extract()?,
        })
    }
}
