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

/// An input that can be opened again.
#[derive(Clone)]
pub struct Argument {
    pub input: Input,
    /// The text, if it is an address.
    pub address: Option<String>,
    /// Whether it is memory that the caller may change, and that is read without a lease.
    pub borrows: bool,
}

impl Argument {
    /// Takes what `zstn._sources.resolve` makes of an argument: a kind and a
    /// value. What belongs to the caller is read for as long as the lease lasts.
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
                // No caller sees the content of `bytes` afterwards.
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

    /// Takes one argument, a list of them, or `None`.
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

/// The place of an output.
pub enum Destination {
    Path(PathBuf),
    Url(String),
    /// An object with a method `write`.
    Object(Py<PyAny>),
}

/// Bytes handed to an object at a time, so that many small tensors
/// are not as many calls.
const PIECE_BYTES: usize = 1 << 20;

/// Returns a writer to an object with a method `write`, for as long as the work is watched.
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

    /// Returns whether writing waits for nobody else, unlike that to a server, an object or a pipe.
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

    /// Returns the kind of file that its name says.
    pub fn kind(&self) -> Option<TargetKind> {
        match self {
            Self::Path(path) => TargetKind::from_path(path),
            // Without a query, which may be a signature.
            Self::Url(url) => match Location::url(url).file_name() {
                Some(name) => TargetKind::from_path(Path::new(&name)),
                None => TargetKind::from_path(Path::new(url)),
            },
            Self::Object(_) => None,
        }
    }
}

/// Returns whether a reader of `sources` may be used after a fork: those of
/// servers share a connection with the parent.
pub fn survives_fork<'a>(mut sources: impl Iterator<Item = &'a dyn Source>) -> bool {
    !sources.any(|source| source.is_remote())
}
