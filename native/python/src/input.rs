//! Arguments that name an input or an output.

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use zstn::convert::TargetKind;
use zstn::{Input, Location, Sink, Source};

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
    /// Converts an argument, which `zstn._sources.resolve` first turns into a kind and
    /// a value. The caller's objects and memory are only read while the lease is valid.
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
            Err(error) => Err(error),
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
