//! Readers whose reads block no thread while they wait, for `zstn.aio`.
//!
//! Each call starts a task on the runtime that sends requests, and returns at once. The
//! task calls `done(result, error)` exactly once, from another thread: with a result, with
//! an exception, or with `None` twice after it was cancelled and has closed its requests.

use std::collections::BTreeMap;
use std::process;

use pyo3::prelude::*;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use zstn::{Error, Result, Verify, View};
use zstn_net::runtime;

use crate::arguments::{Argument, Http};
use crate::buffer::{Aligned, Buffer};
use crate::engine::{self, Threads};
use crate::error::{to_python, zstn_error};
use crate::reader::{Pick, selection};
use crate::tensor::TensorInfo;

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
    /// The bytes of a tensor, or of selected elements.
    Bytes(Vec<u8>),
}

impl Done {
    fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(match self {
            Self::Reader(reader) => {
                let process = process::id();
                Py::new(py, AsyncReader { reader, process })?.into_any()
            }
            Self::Bytes(bytes) => {
                let copied = py.detach(move || aligned(&bytes));
                let memory = copied.map_err(|error| to_python(py, error))?;
                Py::new(py, Buffer::from(memory))?.into_any()
            }
        })
    }
}

/// Copies bytes into the memory of a buffer.
fn aligned(bytes: &[u8]) -> Result<Aligned> {
    let mut memory = Aligned::zeroed(bytes.len() as u64)?;
    memory.as_mut_slice().copy_from_slice(bytes);
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
        // The reader's error names the file and similar tensors.
        self.reader
            .find(name)
            .map_err(|error| to_python(py, error))?;
        let number = model
            .find(name)
            .map_err(|error| to_python(py, error.into()))?;
        Ok(TensorInfo::of(model, number))
    }

    /// Starts to read a tensor.
    fn read(&self, py: Python<'_>, name: String, done: Py<PyAny>) -> PyResult<Running> {
        let reader = self.get(py)?;
        start(py, done, async move {
            Ok(Done::Bytes(reader.read(&name).await?.bytes))
        })
    }

    /// Starts to read a slice, like `Reader.read_slice`.
    fn read_slice(
        &self,
        py: Python<'_>,
        name: String,
        picks: Vec<Pick>,
        done: Py<PyAny>,
    ) -> PyResult<Running> {
        let reader = self.get(py)?;
        let tensor = reader.find(&name).map_err(|error| to_python(py, error))?;
        let selection = selection(tensor, picks)?;
        start(py, done, async move {
            Ok(Done::Bytes(reader.read_selection(selection).await?.bytes))
        })
    }
}
