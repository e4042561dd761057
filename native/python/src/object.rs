//! Python objects as sources of bytes.

use std::borrow::Cow;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use pyo3::buffer::{PyBuffer, PyUntypedBuffer};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zstn::{Error, Result, Source};

use crate::error::from_python;

/// An object that is read by range: `name`, `size`, `is_remote` and
/// `read_ranges([(start, end), …])`, which returns a list of bytes-like
/// objects. `zstn/_sources.py` makes them of files and of fsspec's.
pub struct ObjectSource {
    object: Py<PyAny>,
    name: String,
    len_bytes: u64,
    is_remote: bool,
}

impl ObjectSource {
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self {
            name: object.getattr("name")?.extract()?,
            len_bytes: object.getattr("size")?.extract()?,
            is_remote: object.getattr("is_remote")?.extract()?,
            object: object.clone().unbind(),
        })
    }

    fn fetch(&self, py: Python<'_>, ranges: &[Range<u64>]) -> PyResult<Vec<Vec<u8>>> {
        let ranges: Vec<_> = ranges
            .iter()
            .map(|range| (range.start, range.end))
            .collect();
        let parts = self.object.call_method1(py, "read_ranges", (ranges,))?;
        let parts: Vec<PyBuffer<u8>> = parts.extract(py)?;
        parts.iter().map(|part| part.to_vec(py)).collect()
    }
}

impl Source for ObjectSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        let mut parts = self.read_ranges(std::slice::from_ref(&range))?;
        Ok(parts.pop().unwrap_or_default())
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Cow<'_, [u8]>>> {
        let action = || format!("read {}", self.name);
        let fetched = Python::try_attach(|py| self.fetch(py, ranges))
            .ok_or_else(|| Error::io(action(), io::Error::other("the interpreter has ended")))?
            .map_err(|error| from_python(action(), error))?;
        let lengths = fetched.iter().map(|bytes| bytes.len() as u64);
        if !lengths.eq(ranges.iter().map(|range| range.end - range.start)) {
            let detail = format!(
                "{} gave {:?} bytes for the ranges {ranges:?}",
                self.name,
                fetched.iter().map(Vec::len).collect::<Vec<_>>()
            );
            return Err(zstn::core::Error::invalid_input(detail).into());
        }
        Ok(fetched.into_iter().map(Cow::Owned).collect())
    }

    fn is_remote(&self) -> bool {
        self.is_remote
    }
}

/// An object that is written to: `write(bytes)`, which may take a part of them
/// and return how many, and `flush()` if it has that.
pub struct ObjectWriter {
    object: Py<PyAny>,
}

impl ObjectWriter {
    pub fn new(object: Py<PyAny>) -> Self {
        Self { object }
    }
}

impl Write for ObjectWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        attached(|py| {
            let piece = PyBytes::new(py, bytes);
            let written = self.object.call_method1(py, "write", (piece,))?;
            match written.extract::<Option<usize>>(py) {
                Ok(Some(len)) => Ok(len.min(bytes.len())),
                // Some return nothing, or something of their own.
                Ok(None) | Err(_) => Ok(bytes.len()),
            }
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        attached(|py| {
            let object = self.object.bind(py);
            if object.hasattr("flush")? {
                object.call_method0("flush")?;
            }
            Ok(())
        })
    }
}

/// Runs `work` with the interpreter. Its exceptions are inside of the errors.
fn attached<T>(work: impl FnOnce(Python<'_>) -> PyResult<T>) -> io::Result<T> {
    let done = Python::try_attach(|py| work(py).map_err(io::Error::other));
    done.unwrap_or_else(|| Err(io::Error::other("the interpreter has ended")))
}

/// Memory of a Python object, such as `bytes` or a NumPy array. The caller of
/// Python code must not change it while it is used, as with any other library
/// that reads buffers without the interpreter.
#[derive(Clone)]
pub struct Memory {
    buffer: Arc<PyUntypedBuffer>,
}

impl Memory {
    /// Takes the memory of an object with the buffer protocol.
    ///
    /// # Errors
    /// If it has none or is not contiguous and row-major.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyUntypedBuffer::get(object)?;
        if !buffer.is_c_contiguous() {
            return Err(pyo3::exceptions::PyBufferError::new_err(
                "the memory has gaps; make a contiguous copy of it",
            ));
        }
        Ok(Self {
            buffer: Arc::new(buffer),
        })
    }

    // pyo3 gives cells that only the interpreter may read; we read without it.
    #[allow(unsafe_code)]
    pub fn as_slice(&self) -> &[u8] {
        let len = self.buffer.len_bytes();
        if len == 0 {
            // Python may give no pointer for it.
            return &[];
        }
        // SAFETY: the buffer is contiguous and of `len` bytes, and exported:
        // Python neither moves nor frees it while `self.buffer` is held, which
        // the slice borrows. Writing to it meanwhile is the error of whoever
        // does it, as the documentation of `zstn.pack` says; every length read
        // from it is checked before it is used.
        unsafe { std::slice::from_raw_parts(self.buffer.buf_ptr().cast::<u8>(), len) }
    }
}

/// Memory of a Python object as a source.
pub struct MemorySource {
    pub name: String,
    pub memory: Memory,
}

impl Source for MemorySource {
    fn name(&self) -> &str {
        &self.name
    }

    fn len_bytes(&self) -> u64 {
        self.memory.as_slice().len() as u64
    }

    fn is_in_memory(&self) -> bool {
        true
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        let bytes = self.memory.as_slice();
        let part = usize::try_from(range.start)
            .ok()
            .zip(usize::try_from(range.end).ok())
            .and_then(|(start, end)| bytes.get(start..end));
        part.map(Cow::Borrowed)
            .ok_or_else(|| Error::Usage(format!("{} has no bytes {range:?}", self.name)))
    }
}
