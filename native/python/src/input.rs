//! Arguments that name an input or an output.

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use zstn::convert::TargetKind;
use zstn::{Input, Location, Sink, Source};

use crate::object::{Memory, MemorySource, ObjectSource, ObjectWriter};

/// An input that can be opened again.
#[derive(Clone)]
pub struct Argument {
    pub input: Input,
    /// The text, if it is an address.
    pub address: Option<String>,
}

impl Argument {
    /// Takes what `zstn._sources.resolve` makes of an argument: a kind and a
    /// value.
    pub fn new(argument: &Bound<'_, PyAny>) -> PyResult<Self> {
        static RESOLVE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let py = argument.py();
        let resolve = RESOLVE.import(py, "zstn._sources", "resolve")?;
        let (kind, value): (String, Bound<'_, PyAny>) = resolve.call1((argument,))?.extract()?;
        let input = match &*kind {
            "path" => Input::from(value.extract::<PathBuf>()?),
            "url" => {
                let address: String = value.extract()?;
                return Ok(Self {
                    input: Location::url(&address).into(),
                    address: Some(address),
                });
            }
            "memory" => Input::source(MemorySource {
                name: "bytes in memory".into(),
                memory: Memory::new(&value)?,
            }),
            "object" => Input::source(ObjectSource::new(&value)?),
            _ => return Err(PyTypeError::new_err(format!("an input of the kind {kind}"))),
        };
        Ok(Self {
            input,
            address: None,
        })
    }

    /// Takes one argument, a list of them, or `None`.
    pub fn several(argument: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<Self>> {
        let Some(argument) = argument else {
            return Ok(Vec::new());
        };
        if let Ok(list) = argument.extract::<Vec<Bound<'_, PyAny>>>()
            && (argument.is_instance_of::<pyo3::types::PyList>()
                || argument.is_instance_of::<pyo3::types::PyTuple>())
        {
            return list.iter().map(Self::new).collect();
        }
        Ok(vec![Self::new(argument)?])
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

/// Returns a writer to an object with a method `write`.
pub fn buffered(object: Py<PyAny>) -> BufWriter<ObjectWriter> {
    BufWriter::with_capacity(PIECE_BYTES, ObjectWriter::new(object))
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

    pub fn sink(self, overwrite: bool) -> Sink<'static> {
        let sink = match self {
            Self::Path(path) => Sink::path(path),
            Self::Url(url) => Sink::url(url),
            Self::Object(object) => Sink::writer(buffered(object)),
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
