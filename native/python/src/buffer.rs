//! Buffers of tensor bytes that Python objects own.

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::aligned::Aligned;

/// The bytes of a tensor, writable and aligned to 64 bytes. A buffer supports the
/// buffer protocol: `memoryview(buffer)`, `numpy.frombuffer(buffer, dtype)`.
#[pyclass(frozen, module = "zstn")]
pub struct Buffer {
    // Only `__getbuffer__` locks the memory, and it does not write. The memory is
    // neither moved nor freed before the object is.
    memory: Mutex<Aligned>,
    len: usize,
}

impl From<Aligned> for Buffer {
    fn from(memory: Aligned) -> Self {
        Self {
            len: memory.len(),
            memory: Mutex::new(memory),
        }
    }
}

#[pymethods]
impl Buffer {
    /// Creates a buffer of `length` zeros.
    #[new]
    fn new(length: u64) -> PyResult<Self> {
        let memory =
            Aligned::zeroed(length).map_err(|error| PyMemoryError::new_err(error.to_string()))?;
        Ok(memory.into())
    }

    fn __len__(&self) -> usize {
        self.len
    }

    fn __repr__(&self) -> String {
        format!("<zstn.Buffer of {} bytes>", self.len)
    }

    // The buffer protocol returns a raw pointer; pyo3 has no safe interface for it.
    #[allow(unsafe_code)]
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let mut memory = this.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let pointer = memory.as_mut_slice().as_mut_ptr();
        let len = ffi::Py_ssize_t::try_from(this.len)?;
        // SAFETY: `view` comes from Python and is valid for this call. `pointer` points
        // to `len` bytes that live as long as the object, and the view adds a reference
        // to the object. Only Python reads and writes the bytes afterwards: no Rust
        // code keeps a reference into a `Buffer`.
        let result =
            unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), pointer.cast(), len, 0, flags) };
        match result {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }
}
