//! What is known of a tensor before it is read.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use zstn::core::model;

/// What the index of a model says about a tensor.
#[pyclass(frozen, module = "zstn", get_all)]
pub struct TensorInfo {
    /// Name.
    name: String,
    /// Element type in the spelling of safetensors, such as `"BF16"`.
    dtype: &'static str,
    /// Shape, outermost dimension first.
    shape: Vec<u64>,
    /// Length in bytes.
    nbytes: u64,
    /// Bytes it takes in its file, including those shared with other tensors.
    stored_nbytes: u64,
}

#[pymethods]
impl TensorInfo {
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

impl From<&model::Tensor> for TensorInfo {
    fn from(tensor: &model::Tensor) -> Self {
        Self {
            name: tensor.name.clone(),
            dtype: tensor.dtype.name(),
            shape: tensor.shape.clone(),
            nbytes: tensor.len_bytes(),
            stored_nbytes: tensor.stored_len_bytes(),
        }
    }
}
