//! Readers whose reads block no thread while they wait, for `zstn.aio`.
//!
//! Each call starts a task on the runtime that sends requests, and returns at once. The
//! task calls `done(result, error)` exactly once, from another thread: with a result, with
//! an exception, or with `None` twice after it was cancelled and has closed its requests.

use std::collections::BTreeMap;
use std::process;

use futures_util::{StreamExt, TryStreamExt, stream};
use pyo3::prelude::*;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use zstn::{Error, Result, Verify, View};
use zstn_net::runtime;

use crate::arguments::{Argument, Http};
use crate::buffer::{Aligned, Buffer};
use crate::engine::{self, Threads};
use crate::error::{to_python, zstn_error};
use crate::tensor::TensorInfo;

/// Maximum number of row ranges of a tensor that are read at the same time.
const RANGES_AT_ONCE: usize = 8;

/// A task that has been started.
#[pyclass(frozen, module = "zstn._native")]
pub struct Running(AbortHandle);

#[pymethods]
impl Running {
    /// Ends the task at its next wait. It calls `done` once its requests are closed.
    fn cancel(&self) {
        self.0.abort();
    }
}

/// The result of a task.
enum Done {
    Reader(zstn::AsyncReader),
    /// The bytes of consecutive parts of a tensor.
    Bytes(Vec<Vec<u8>>),
}

impl Done {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(match self {
            Self::Reader(reader) => {
                let process = process::id();
                Py::new(py, AsyncReader { reader, process })?.into_any()
            }
            Self::Bytes(parts) => {
                let joined = py.detach(move || join(&parts));
                let memory = joined.map_err(|error| to_python(py, error))?;
                Py::new(py, Buffer::from(memory))?.into_any()
            }
        })
    }
}

/// Copies the parts into the memory of one buffer.
fn join(parts: &[Vec<u8>]) -> Result<Aligned> {
    let len_bytes: usize = parts.iter().map(Vec::len).sum();
    let mut memory = Aligned::zeroed(len_bytes as u64)?;
    let mut rest = memory.as_mut_slice();
    for part in parts {
        let (start, end) = rest.split_at_mut(part.len());
        start.copy_from_slice(part);
        rest = end;
    }
    Ok(memory)
}

/// Calls `done` with the outcome of a task, or when the task is dropped without one.
struct Report {
    done: Option<Py<PyAny>>,
    handle: &'static Handle,
}

impl Report {
    fn send(&mut self, outcome: Option<Result<Done>>) {
        let Some(done) = self.done.take() else {
            return;
        };
        // This thread must not wait for the interpreter, because it sends requests.
        self.handle.spawn_blocking(move || {
            // The interpreter may have been finalised.
            let _ = Python::try_attach(|py| {
                let result = outcome.map(|outcome| {
                    let done = outcome.map_err(|error| to_python(py, error))?;
                    done.into_python(py)
                });
                let (result, error) = match result {
                    None => (None, None),
                    Some(Ok(result)) => (Some(result), None),
                    Some(Err(error)) => (None, Some(error)),
                };
                if let Err(error) = done.call1(py, (result, error)) {
                    error.write_unraisable(py, None);
                }
            });
        });
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        self.send(None);
    }
}

/// Starts a task.
fn start(
    py: Python<'_>,
    done: Py<PyAny>,
    work: impl Future<Output = Result<Done>> + Send + 'static,
) -> PyResult<Running> {
    let handle = runtime::handle().map_err(|error| {
        let error = Error::io("start the threads that send requests", error);
        to_python(py, error)
    })?;
    let done = Some(done);
    let mut report = Report { done, handle };
    let task = handle.spawn(async move {
        // If the task is cancelled, `work` is dropped before `report`.
        let outcome = work.await;
        report.send(Some(outcome));
    });
    Ok(Running(task.abort_handle()))
}

/// An opened model. `zstn.aio.AsyncReader` wraps it.
#[pyclass(frozen, module = "zstn._native")]
pub struct AsyncReader {
    reader: zstn::AsyncReader,
    process: u32,
}

/// Starts to open a model.
#[pyfunction]
#[expect(
    clippy::too_many_arguments,
    reason = "the arguments of a Python function"
)]
pub fn open_async(
    py: Python<'_>,
    input: &Bound<'_, PyAny>,
    base: Option<&Bound<'_, PyAny>>,
    http: &Bound<'_, PyAny>,
    dense: bool,
    threads: Threads,
    full: bool,
    done: Py<PyAny>,
) -> PyResult<Running> {
    let http: Http = http.extract()?;
    let input = Argument::new(input, None)?;
    let bases = Argument::several(base, None)?;
    let open = move || {
        let engine = engine::with_threads(threads)?;
        let mut options = zstn::Reader::options()
            .engine(&engine)
            .view(if dense { View::Dense } else { View::Stored })
            .verify(if full { Verify::Full } else { Verify::Stored })
            .http(http.options(input.address.as_deref())?);
        for base in &bases {
            options = options.base(&base.input);
        }
        Ok((options, input.input))
    };
    let (options, input) = open().map_err(|error| to_python(py, error))?;
    start(py, done, async move {
        Ok(Done::Reader(options.open_async(input).await?))
    })
}

impl AsyncReader {
    /// Returns the reader for another task.
    fn get(&self, py: Python<'_>) -> PyResult<zstn::AsyncReader> {
        if self.process != process::id() {
            let message = "the model was opened in another process: open it again in this one";
            return Err(zstn_error(py, message.into(), "usage"));
        }
        Ok(self.reader.clone())
    }
}

#[pymethods]
impl AsyncReader {
    #[getter]
    fn name(&self) -> &str {
        self.reader.name()
    }

    #[getter]
    fn kind(&self) -> &'static str {
        self.reader.model().kind().name()
    }

    fn keys(&self) -> Vec<String> {
        let refused = self.reader.model().refused().map(|(name, _)| name);
        let names = self.reader.names().chain(refused);
        names.map(str::to_owned).collect()
    }

    fn metadata(&self) -> BTreeMap<String, String> {
        self.reader.metadata().clone()
    }

    fn find(&self, py: Python<'_>, name: &str) -> PyResult<TensorInfo> {
        let model = self.reader.model();
        let number = model.find(name);
        let number = number.map_err(|error| to_python(py, error.into()))?;
        Ok(TensorInfo::of(model, number))
    }

    /// Starts to read a tensor.
    fn read(&self, py: Python<'_>, name: String, done: Py<PyAny>) -> PyResult<Running> {
        let reader = self.get(py)?;
        start(py, done, async move {
            Ok(Done::Bytes(vec![reader.read(&name).await?.bytes]))
        })
    }

    /// Starts to read ranges of rows, each with its start and end.
    fn read_rows(
        &self,
        py: Python<'_>,
        name: String,
        ranges: Vec<(u64, u64)>,
        done: Py<PyAny>,
    ) -> PyResult<Running> {
        let reader = self.get(py)?;
        start(py, done, async move {
            let reads: Vec<_> = ranges
                .into_iter()
                .map(|(start, end)| {
                    let (reader, name) = (reader.clone(), name.clone());
                    async move { Ok(reader.read_rows(&name, start..end).await?.bytes) }
                })
                .collect();
            let parts = stream::iter(reads).buffered(RANGES_AT_ONCE);
            let parts: Result<Vec<Vec<u8>>> = parts.try_collect().await;
            Ok(Done::Bytes(parts?))
        })
    }
}
