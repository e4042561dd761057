//! Views of models as safetensors files.

use std::ops::Range;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use zstn::internals::UnpackedRanges;

use crate::buffer::{Aligned, Buffer};
use crate::error::to_python;
use crate::reader::Reader;

/// A model as one safetensors file whose bytes are decoded on demand; for a packed
/// file, this is the original file, byte for byte.
#[pyclass(frozen, module = "zstn._native")]
pub struct SafetensorsView {
    reader: Py<Reader>,
    cache_bytes: u64,
    opened: Mutex<OfProcess>,
}

/// The decoded ranges of one process. They are not shared with a forked child, because
/// another thread of the parent may have held one of their locks at the time of the fork.
struct OfProcess {
    process: u32,
    ranges: Arc<UnpackedRanges>,
}

impl OfProcess {
    fn new(py: Python<'_>, reader: &zstn::Reader, cache_bytes: u64) -> PyResult<Self> {
        let ranges = UnpackedRanges::new(reader, cache_bytes);
        Ok(Self {
            process: process::id(),
            ranges: Arc::new(ranges.map_err(|error| to_python(py, error))?),
        })
    }
}

impl SafetensorsView {
    /// Returns the reader and the ranges of this process. Fails if the reader has been
    /// closed.
    fn opened(&self, py: Python<'_>) -> PyResult<(zstn::Reader, Arc<UnpackedRanges>)> {
        let reader = Reader::get(self.reader.get(), py)?;
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if opened.process != process::id() {
            *opened = OfProcess::new(py, &reader, self.cache_bytes)?;
        }
        Ok((reader, Arc::clone(&opened.ranges)))
    }

    fn ranges(&self) -> Arc<UnpackedRanges> {
        let opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&opened.ranges)
    }
}

#[pymethods]
impl SafetensorsView {
    /// Creates a view of an opened model. The cache of decoded tensors has up to
    /// `cache_bytes` bytes, or contains a single larger tensor.
    #[new]
    fn new(py: Python<'_>, reader: Py<Reader>, cache_bytes: u64) -> PyResult<Self> {
        let opened = OfProcess::new(py, &Reader::get(reader.get(), py)?, cache_bytes)?;
        Ok(Self {
            reader,
            cache_bytes,
            opened: Mutex::new(opened),
        })
    }

    /// The length of the file in bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.ranges().len_bytes()
    }

    /// True if this is the original file. If not, the header was generated.
    #[getter]
    fn is_original(&self) -> bool {
        self.ranges().is_original()
    }

    /// Reads a range of the file.
    fn read(&self, py: Python<'_>, start: u64, end: u64) -> PyResult<Buffer> {
        let (reader, ranges) = self.opened(py)?;
        let range = checked(start, end, ranges.len_bytes())?;
        let touched = ranges.touched_len_bytes(&reader, range.clone());
        let work = move |reader: &zstn::Reader| {
            let mut memory = Aligned::zeroed(range.end - range.start)?;
            ranges.read_into(reader, range.start, memory.as_mut_slice())?;
            Ok(memory)
        };
        self.reader
            .get()
            .work(py, reader, touched, work)
            .map(Buffer::from)
    }

    /// Reads a range of a tensor's bytes.
    fn read_tensor(&self, py: Python<'_>, name: &str, start: u64, end: u64) -> PyResult<Buffer> {
        let (reader, ranges) = self.opened(py)?;
        let tensor = reader.find(name).map_err(|error| to_python(py, error))?;
        let len_bytes = tensor.len_bytes();
        let range = checked(start, end, len_bytes)?;
        let number = reader.model().find(name);
        let number = number.map_err(|error| to_python(py, error.into()))?;
        let work = move |reader: &zstn::Reader| {
            let mut memory = Aligned::zeroed(range.end - range.start)?;
            ranges.read_tensor_into(reader, number, range.start, memory.as_mut_slice())?;
            Ok(memory)
        };
        self.reader
            .get()
            .work(py, reader, len_bytes, work)
            .map(Buffer::from)
    }
}

fn checked(start: u64, end: u64, len_bytes: u64) -> PyResult<Range<u64>> {
    if start > end || end > len_bytes {
        let detail = format!("bytes {start} to {end} of a file of {len_bytes} bytes");
        return Err(PyValueError::new_err(detail));
    }
    Ok(start..end)
}
