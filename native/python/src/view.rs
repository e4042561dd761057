//! Models as the safetensors files that they amount to.

use std::ops::Range;
use std::process;
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use zstn::Result;
use zstn::core::bytes::index;
use zstn::core::model::{Piece, Unpacked};

use crate::aligned::Aligned;
use crate::buffer::Buffer;
use crate::decoded::{DecodedTensors, place};
use crate::error::to_python;
use crate::reader::Reader;

/// A model as one safetensors file that is decoded where it is read: for a
/// packed file, the file that was packed, byte for byte.
#[pyclass(frozen, module = "zstn._native")]
pub struct SafetensorsView {
    reader: Py<Reader>,
    layout: Arc<Unpacked>,
    cache_bytes: u64,
    decoded: Mutex<OfProcess>,
}

/// A child may have been forked while a thread of its parent held a lock in
/// here.
struct OfProcess {
    process: u32,
    tensors: Arc<DecodedTensors>,
}

impl OfProcess {
    fn new(cache_bytes: u64) -> Self {
        Self {
            process: process::id(),
            tensors: Arc::new(DecodedTensors::new(cache_bytes)),
        }
    }
}

impl SafetensorsView {
    fn reader(&self, py: Python<'_>) -> PyResult<zstn::Reader> {
        Reader::get(self.reader.get(), py)
    }

    fn decoded(&self) -> Arc<DecodedTensors> {
        let mut decoded = self.decoded.lock().unwrap_or_else(PoisonError::into_inner);
        if decoded.process != process::id() {
            *decoded = OfProcess::new(self.cache_bytes);
        }
        Arc::clone(&decoded.tensors)
    }
}

#[pymethods]
impl SafetensorsView {
    /// Takes an opened model. Decoded tensors that are kept for the next read
    /// take up to `cache_bytes`, or one of them.
    #[new]
    fn new(py: Python<'_>, reader: Py<Reader>, cache_bytes: u64) -> PyResult<Self> {
        let opened = Reader::get(reader.get(), py)?;
        let model = opened.model();
        let layout = model.unpacked().map_err(place(&opened));
        let layout = layout.map_err(|error| to_python(py, error))?;
        Ok(Self {
            layout: Arc::new(layout),
            reader,
            cache_bytes,
            decoded: Mutex::new(OfProcess::new(cache_bytes)),
        })
    }

    /// The length of the file in bytes.
    #[getter]
    fn size(&self) -> u64 {
        self.layout.len_bytes()
    }

    /// Returns whether this is the file that was packed. If not, its header was
    /// generated.
    #[getter]
    fn is_original(&self) -> bool {
        self.layout.is_original()
    }

    /// Reads a range of the file.
    fn read(&self, py: Python<'_>, start: u64, end: u64) -> PyResult<Buffer> {
        let range = checked(start, end, self.layout.len_bytes())?;
        let reader = self.reader(py)?;
        let (layout, decoded) = (Arc::clone(&self.layout), self.decoded());
        let touched = touched_bytes(&reader, &layout, range.clone());
        let work = move |reader: &zstn::Reader| {
            let mut memory = Aligned::zeroed(range.end - range.start)?;
            fill(reader, &layout, &decoded, range, memory.as_mut_slice())?;
            Ok(memory)
        };
        Reader::work(py, reader, touched, work).map(Buffer::from)
    }

    /// Reads a range of the bytes of a tensor.
    fn read_tensor(&self, py: Python<'_>, name: &str, start: u64, end: u64) -> PyResult<Buffer> {
        let reader = self.reader(py)?;
        let tensor = reader.find(name).map_err(|error| to_python(py, error))?;
        let len_bytes = tensor.len_bytes();
        let range = checked(start, end, len_bytes)?;
        let number = reader.model().find(name);
        let number = number.map_err(|error| to_python(py, error.into()))?;
        let decoded = self.decoded();
        let work = move |reader: &zstn::Reader| {
            let mut memory = Aligned::zeroed(range.end - range.start)?;
            decoded.read(reader, number, range, memory.as_mut_slice())?;
            Ok(memory)
        };
        Reader::work(py, reader, len_bytes, work).map(Buffer::from)
    }
}

fn checked(start: u64, end: u64, len_bytes: u64) -> PyResult<Range<u64>> {
    if start > end || end > len_bytes {
        let detail = format!("bytes {start} to {end} of a file of {len_bytes} bytes");
        return Err(PyValueError::new_err(detail));
    }
    Ok(start..end)
}

/// Returns the length of the tensors that a range of the file touches: decoding
/// a part may mean decoding all of it.
fn touched_bytes(reader: &zstn::Reader, layout: &Unpacked, range: Range<u64>) -> u64 {
    let lens = layout.pieces(range).map(|piece| match piece {
        Piece::Head(_) => 0,
        Piece::Tensor { number, .. } => {
            let tensor = reader.tensors().get(number);
            tensor.map_or(0, zstn::core::model::Tensor::len_bytes)
        }
    });
    lens.fold(0, u64::saturating_add)
}

fn fill(
    reader: &zstn::Reader,
    layout: &Unpacked,
    decoded: &DecodedTensors,
    range: Range<u64>,
    mut out: &mut [u8],
) -> Result<()> {
    let mut whole = Vec::new();
    for piece in layout.pieces(range) {
        match piece {
            Piece::Head(range) => {
                let (part, rest) = out.split_at_mut(range.len());
                part.copy_from_slice(&layout.head()[range]);
                out = rest;
            }
            Piece::Tensor { number, bytes } => {
                let (part, rest) = out.split_at_mut(index(bytes.end - bytes.start));
                out = rest;
                let tensor = &reader.tensors()[number];
                if bytes == (0..tensor.len_bytes()) {
                    whole.push((&*tensor.name, part));
                } else {
                    decoded.read(reader, number, bytes, part)?;
                }
            }
        }
    }
    match whole.is_empty() {
        true => Ok(()),
        false => reader.read_many_into(whole, &()),
    }
}
