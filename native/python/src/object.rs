//! Python objects as sources and destinations of bytes.

use std::borrow::Cow;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use pyo3::buffer::{PyBuffer, PyUntypedBuffer};
use pyo3::exceptions::{PyOSError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes};
use zstn::{Error, Result, Source};

use crate::error::{from_python, to_python};
use crate::progress::Lease;

/// An object that is read by range. It has the attributes `name`, `size` and
/// `is_remote`, and the method `read_ranges([(start, end), …])`, which returns a list
/// of bytes-like objects. `zstn/_sources.py` creates these from file objects, fsspec
/// files among them.
pub struct ObjectSource {
    object: Py<PyAny>,
    name: String,
    len_bytes: u64,
    is_remote: bool,
    lease: Option<Lease>,
}

impl ObjectSource {
    /// Takes the object. If a `lease` is given, reads fail once it has been revoked.
    pub fn new(object: &Bound<'_, PyAny>, lease: Option<&Lease>) -> PyResult<Self> {
        Ok(Self {
            lease: lease.cloned(),
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
        if let Some(lease) = &self.lease {
            drop(lease.hold()?);
        }
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
            return Err(zstn::zstn_core::Error::invalid_input(detail).into());
        }
        Ok(fetched.into_iter().map(Cow::Owned).collect())
    }

    fn is_remote(&self) -> bool {
        self.is_remote
    }
}

/// A Python object that is written to. Its method `write(bytes)` returns the number of
/// bytes accepted, as `io.RawIOBase.write` does; a method `flush()` is optional.
pub struct ObjectWriter {
    object: Py<PyAny>,
    lease: Lease,
    /// True after an error, when nothing more may be written. A `BufWriter` around this
    /// writer would still try to.
    has_failed: bool,
}

impl ObjectWriter {
    /// Writes to `object` while the lease is valid.
    pub fn new(object: Py<PyAny>, lease: Lease) -> Self {
        Self {
            object,
            lease,
            has_failed: false,
        }
    }

    fn call<T>(&mut self, work: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> io::Result<T> {
        if self.has_failed {
            return Err(io::Error::other("the object has failed before"));
        }
        let done = attached(|py| {
            // The lease is not held during the call, which may wait forever.
            let held = self.lease.hold().map(drop);
            held.map_err(|error| to_python(py, error))?;
            work(self.object.bind(py))
        });
        self.has_failed = done.is_err();
        done
    }
}

impl Write for ObjectWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.call(|object| {
            let piece = PyBytes::new(object.py(), bytes);
            let written = object.call_method1("write", (piece,))?;
            taken(&written, bytes.len())
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.call(|object| {
            if object.hasattr("flush")? {
                object.call_method0("flush")?;
            }
            Ok(())
        })
    }
}

/// Returns how many of `given` bytes a method `write` has accepted, according to its
/// result.
fn taken(written: &Bound<'_, PyAny>, given: usize) -> PyResult<usize> {
    let count = match written.is_instance_of::<PyBool>() {
        // A `bool` is a number in Python, but not a count.
        true => None,
        false => written.extract::<i128>().ok(),
    };
    let count = count.ok_or_else(|| {
        let shown = written
            .repr()
            .map_or_else(|_| "?".into(), |shown| shown.to_string());
        PyTypeError::new_err(format!(
            "write() returned {shown}; it has to return the number of bytes that it has taken, \
             as io.RawIOBase.write does"
        ))
    })?;
    usize::try_from(count)
        .ok()
        .filter(|count| (1..=given).contains(count))
        .ok_or_else(|| {
            PyOSError::new_err(format!(
                "write() returned {count} for {given} bytes; it has to return the number of bytes \
                 that it has taken, at least 1"
            ))
        })
}

/// Runs `work` with the interpreter, and wraps its exceptions in errors.
fn attached<T>(work: impl FnOnce(Python<'_>) -> PyResult<T>) -> io::Result<T> {
    let done = Python::try_attach(|py| work(py).map_err(io::Error::other));
    done.unwrap_or_else(|| Err(io::Error::other("the interpreter has ended")))
}

/// Memory of a Python object, such as `bytes` or a NumPy array. The Python caller must
/// not change it during the call, as with any library that reads buffers without
/// holding the interpreter.
#[derive(Clone)]
pub struct Memory {
    buffer: Arc<PyUntypedBuffer>,
    is_constant: bool,
}

impl Memory {
    /// Takes the memory of an object that supports the buffer protocol.
    ///
    /// # Errors
    /// `BufferError` if the object does not support it, or is not contiguous and
    /// row-major.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyUntypedBuffer::get(object)?;
        if !buffer.is_c_contiguous() {
            return Err(pyo3::exceptions::PyBufferError::new_err(
                "the memory has gaps; make a contiguous copy of it",
            ));
        }
        Ok(Self {
            buffer: Arc::new(buffer),
            is_constant: object.is_exact_instance_of::<PyBytes>(),
        })
    }

    /// Returns whether the bytes may change.
    pub fn may_change(&self) -> bool {
        !self.is_constant
    }

    // pyo3 exposes cells that may only be read with the interpreter held, which it is
    // not here.
    #[allow(unsafe_code)]
    pub fn as_slice(&self) -> &[u8] {
        let len = self.buffer.len_bytes();
        if len == 0 {
            // Python may pass a null pointer for an empty buffer.
            return &[];
        }
        // SAFETY: the buffer is contiguous and has `len` bytes. Python neither moves
        // nor frees it while `self.buffer` is held, and the slice borrows `self`. The
        // documentation of `zstn.pack` forbids callers to write to it meanwhile; every
        // length read from it is checked before it is used.
        unsafe { std::slice::from_raw_parts(self.buffer.buf_ptr().cast::<u8>(), len) }
    }
}

/// A [`Source`] that reads the memory of a Python object.
pub struct MemorySource {
    pub name: String,
    pub memory: Memory,
    /// The permission to read, if it can be revoked; reads then return copies.
    pub lease: Option<Lease>,
}

impl Source for MemorySource {
    fn name(&self) -> &str {
        &self.name
    }

    fn len_bytes(&self) -> u64 {
        self.memory.as_slice().len() as u64
    }

    fn is_in_memory(&self) -> bool {
        self.lease.is_none()
    }

    fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>> {
        let bytes = self.memory.as_slice();
        let part = usize::try_from(range.start)
            .ok()
            .zip(usize::try_from(range.end).ok())
            .and_then(|(start, end)| bytes.get(start..end));
        let part =
            part.ok_or_else(|| Error::Usage(format!("{} has no bytes {range:?}", self.name)))?;
        match &self.lease {
            None => Ok(Cow::Borrowed(part)),
            Some(lease) => {
                let _held = lease.hold()?;
                Ok(Cow::Owned(part.to_vec()))
            }
        }
    }
}
