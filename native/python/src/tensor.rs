//! The index entries of tensors, and slices of tensors in any number of dimensions.

use std::mem;

use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use zstn::Result;
use zstn::zstn_core::bytes::index;
use zstn::zstn_core::dtype::Dtype;
use zstn::zstn_core::model;
use zstn::zstn_core::tensor::element_count;

use crate::buffer::Aligned;

/// The index entry of a tensor.
#[pyclass(frozen, eq, hash, module = "zstn", get_all)]
#[derive(PartialEq, Eq, Hash)]
pub struct TensorInfo {
    /// Name of the tensor.
    name: String,
    /// Element type in the spelling of safetensors, such as `"BF16"`.
    dtype: &'static str,
    /// Lengths of the dimensions, outermost first.
    shape: Vec<u64>,
    /// Length of the decoded tensor in bytes.
    nbytes: u64,
    /// Number of bytes that the tensor occupies in its file, including bytes shared
    /// with other tensors.
    stored_nbytes: u64,
}

#[pymethods]
impl TensorInfo {
    #[new]
    fn new(
        name: String,
        dtype: &str,
        shape: Vec<u64>,
        nbytes: u64,
        stored_nbytes: u64,
    ) -> PyResult<Self> {
        let known = Dtype::from_name(dtype);
        let unknown = || PyValueError::new_err(format!("{dtype:?} is not a dtype"));
        Ok(Self {
            name,
            dtype: known.ok_or_else(unknown)?.name(),
            shape,
            nbytes,
            stored_nbytes,
        })
    }

    /// The arguments of `__new__`, for pickle.
    fn __getnewargs__(&self) -> (&str, &str, &[u64], u64, u64) {
        (
            &self.name,
            self.dtype,
            &self.shape,
            self.nbytes,
            self.stored_nbytes,
        )
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    fn __repr__(&self) -> String {
        let shape: Vec<String> = self.shape.iter().map(u64::to_string).collect();
        let comma = if shape.len() == 1 { "," } else { "" };
        format!(
            "TensorInfo(name={:?}, dtype={:?}, shape=({}{comma}), nbytes={})",
            self.name,
            self.dtype,
            shape.join(", "),
            self.nbytes
        )
    }
}

impl From<&model::TensorInfo> for TensorInfo {
    fn from(tensor: &model::TensorInfo) -> Self {
        Self {
            name: tensor.name.clone(),
            dtype: tensor.dtype.name(),
            shape: tensor.shape.clone(),
            nbytes: tensor.len_bytes(),
            stored_nbytes: tensor.stored_len_bytes(),
        }
    }
}

/// A slice of a tensor, with a selection for each dimension.
pub struct Slice {
    name: String,
    shape: Vec<u64>,
    picks: Vec<Pick>,
    element_bytes: usize,
    len_bytes: u64,
}

impl Slice {
    /// Checks `picks`, which must contain one entry for each dimension of `tensor`.
    pub fn new(tensor: &model::TensorInfo, mut picks: Vec<Pick>) -> PyResult<Self> {
        let mut shape = tensor.shape.clone();
        if picks.len() != shape.len() {
            return Err(PyIndexError::new_err(
                "a pick for every dimension is needed",
            ));
        }
        for (pick, len) in picks.iter().zip(&shape) {
            let fits = pick.count == 0 || pick.bounds().is_some_and(|(_, end)| end <= *len);
            if !fits {
                return Err(PyIndexError::new_err("an index beyond the end"));
            }
        }
        let element_bytes = match tensor.dtype.len_bytes() {
            Some(bytes) => bytes,
            None => bytes_of_packed(tensor, &mut shape, &mut picks)?,
        };
        let count: u64 = picks.iter().map(|pick| pick.count).product();
        Ok(Self {
            name: tensor.name.clone(),
            len_bytes: count * element_bytes as u64,
            shape,
            picks,
            element_bytes,
        })
    }

    /// Reads the slice; of the first dimension, only the rows between its bounds are
    /// read.
    pub fn read(&self, reader: &zstn::Reader) -> Result<Aligned> {
        let mut out = Aligned::zeroed(self.len_bytes)?;
        if self.len_bytes == 0 {
            return Ok(out);
        }
        let Some(((first, end), rows)) = self
            .picks
            .first()
            .and_then(Pick::bounds)
            .zip(self.shape.first())
        else {
            reader.read_into(&self.name, out.as_mut_slice())?;
            return Ok(out);
        };
        let (mut shape, mut picks) = (self.shape.clone(), self.picks.clone());
        let out_of = |from: &[u8], shape: &[u64], picks: &[Pick], out: &mut Aligned| {
            gather(from, shape, picks, self.element_bytes, out.as_mut_slice());
        };
        if (first, end) == (0, *rows) {
            let mut whole = Aligned::zeroed(reader.find(&self.name)?.len_bytes())?;
            reader.read_into(&self.name, whole.as_mut_slice())?;
            if whole.as_mut_slice().len() as u64 == self.len_bytes
                && self.picks.iter().all(|pick| pick.step == 1)
            {
                return Ok(whole);
            }
            out_of(whole.as_mut_slice(), &shape, &picks, &mut out);
            return Ok(out);
        }
        let read = reader.read_rows(&self.name, first..end)?;
        shape[0] = end - first;
        picks[0].start -= i64::try_from(first).unwrap_or(0);
        out_of(&read.bytes, &shape, &picks, &mut out);
        Ok(out)
    }
}

/// Converts a slice of elements shorter than a byte to a slice of bytes: the last
/// dimension is then counted in bytes. Returns the element length of 1 byte.
fn bytes_of_packed(
    tensor: &model::TensorInfo,
    shape: &mut [u64],
    picks: &mut [Pick],
) -> PyResult<usize> {
    let (Some(len), Some(pick)) = (shape.last_mut(), picks.last_mut()) else {
        return Err(PyValueError::new_err("a single element below one byte"));
    };
    let bits = tensor.dtype.bits();
    let is_all = pick.start == 0 && pick.step == 1 && pick.count == *len;
    if !is_all || !(*len * bits).is_multiple_of(8) {
        return Err(PyIndexError::new_err(format!(
            "elements of {} are parts of bytes: the last dimension can be taken as a whole only",
            tensor.dtype
        )));
    }
    *len = *len * bits / 8;
    pick.count = *len;
    Ok(1)
}

/// The selected indices of one dimension: `start`, `start + step`, …
#[derive(Debug, Clone, Copy)]
pub struct Pick {
    pub start: i64,
    pub step: i64,
    pub count: u64,
}

impl Pick {
    /// Returns the lowest index and the highest index plus 1; `None` if no index is
    /// selected.
    fn bounds(&self) -> Option<(u64, u64)> {
        let steps = i64::try_from(self.count.checked_sub(1)?).ok()?;
        let last = self.start.checked_add(self.step.checked_mul(steps)?)?;
        let low = u64::try_from(self.start.min(last)).ok()?;
        let high = u64::try_from(self.start.max(last)).ok()?;
        Some((low, high.checked_add(1)?))
    }

    fn is_all(&self, len: u64) -> bool {
        self.start == 0 && self.step == 1 && self.count == len
    }
}

/// Copies the selected elements of a row-major array of `shape` to `out`, which has
/// exactly their length. Each element has `element_bytes` bytes. All selected indices
/// must be inside their dimensions.
fn gather(from: &[u8], shape: &[u64], picks: &[Pick], element_bytes: usize, out: &mut [u8]) {
    // Trailing dimensions that are selected whole are copied as one long element.
    let whole = shape.iter().zip(picks).rev();
    let whole = whole.take_while(|(len, pick)| pick.is_all(**len)).count();
    let outer = picks.len() - whole;
    // If the product overflows, another dimension is 0, so there is nothing to copy.
    let run = element_count(&shape[outer..]).unwrap_or(0);
    let run_bytes = index(run) * element_bytes;
    let mut writer = Writer {
        from,
        shape: &shape[..outer],
        picks: &picks[..outer],
        run_bytes,
        out,
    };
    if run_bytes > 0 {
        writer.dimension(0, 0);
    }
}

struct Writer<'a> {
    from: &'a [u8],
    shape: &'a [u64],
    picks: &'a [Pick],
    run_bytes: usize,
    out: &'a mut [u8],
}

impl Writer<'_> {
    /// Copies the selected runs of `dimension` and the dimensions inside it, where
    /// `first` is the number of the run at index 0.
    fn dimension(&mut self, dimension: usize, first: usize) {
        let Some(pick) = self.picks.get(dimension).copied() else {
            return self.copy(first, 1);
        };
        let inner = element_count(&self.shape[dimension + 1..]).unwrap_or(0);
        if dimension + 1 == self.picks.len() && pick.step == 1 {
            return self.copy(first + index(pick.start.unsigned_abs()), index(pick.count));
        }
        let mut at = pick.start;
        for _ in 0..pick.count {
            self.dimension(dimension + 1, first + index(at.unsigned_abs() * inner));
            at += pick.step;
        }
    }

    /// Copies `count` consecutive runs from number `first`.
    fn copy(&mut self, first: usize, count: usize) {
        let (start, len) = (first * self.run_bytes, count * self.run_bytes);
        let (out, rest) = mem::take(&mut self.out).split_at_mut(len);
        out.copy_from_slice(&self.from[start..start + len]);
        self.out = rest;
    }
}
