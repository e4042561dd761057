//! The index entries of tensors.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use zstn::zstn_core::dtype::Dtype;
use zstn::zstn_core::model::Model;

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
    /// Number of bytes that the tensor takes in its file, including bytes shared with
    /// equal tensors. A tensor that is only a part of an entry of a packed file takes its
    /// share of the entry's stored bytes.
    stored_nbytes: u64,
    /// Length of the tensor in bytes in the file that it was packed from, or in its own
    /// file. It differs from `nbytes` for quantised values.
    original_nbytes: u64,
    /// The first 16 bytes of the BLAKE3 of the decoded tensor in hex, as the file records
    /// them. `None` if it has none.
    digest: Option<String>,
}

#[pymethods]
impl TensorInfo {
    #[new]
    #[pyo3(signature = (name, dtype, shape, nbytes, stored_nbytes, original_nbytes = None, digest = None))]
    fn new(
        name: String,
        dtype: &str,
        shape: Vec<u64>,
        nbytes: u64,
        stored_nbytes: u64,
        original_nbytes: Option<u64>,
        digest: Option<String>,
    ) -> PyResult<Self> {
        let known = Dtype::from_name(dtype);
        let unknown = || PyValueError::new_err(format!("{dtype:?} is not a dtype"));
        Ok(Self {
            name,
            dtype: known.ok_or_else(unknown)?.name(),
            shape,
            nbytes,
            stored_nbytes,
            original_nbytes: original_nbytes.unwrap_or(nbytes),
            digest,
        })
    }

    /// The arguments of `__new__`, for pickle.
    fn __getnewargs__(&self) -> (&str, &str, &[u64], u64, u64, u64, Option<&str>) {
        (
            &self.name,
            self.dtype,
            &self.shape,
            self.nbytes,
            self.stored_nbytes,
            self.original_nbytes,
            self.digest.as_deref(),
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

impl TensorInfo {
    /// Returns the index entry of tensor `number` in `model`.
    pub fn of(model: &Model, number: usize) -> Self {
        let tensor = &model.tensors()[number];
        let digest = model.tensor_digest(number);
        Self {
            name: tensor.name.clone(),
            dtype: tensor.dtype.name(),
            shape: tensor.shape.clone(),
            nbytes: tensor.len_bytes(),
            stored_nbytes: tensor.stored_share_bytes(),
            original_nbytes: tensor.original_len_bytes(),
            digest: digest.map(|digest| format!("{:032x}", u128::from_be_bytes(digest))),
        }
    }
}
