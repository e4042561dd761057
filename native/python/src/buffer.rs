//! Memory for decoded tensors, and the Python objects that own it.

// A `Vec<u8>` cannot be aligned to 64 bytes, and pyo3 has no safe interface for the
// buffer protocol.
#![allow(unsafe_code)]

use std::alloc::{self, Layout};
use std::ffi::c_int;
use std::ptr::NonNull;
use std::slice;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::prelude::*;
use zstn::Result;
use zstn::zstn_core::Error;

/// The alignment that suits vector instructions and other frameworks.
#[repr(align(64))]
struct Line;

/// An owned allocation that is aligned to 64 bytes.
pub struct Aligned {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the value is the only owner of its memory, so it may move to another thread.
unsafe impl Send for Aligned {}

impl Aligned {
    /// Returns `len` zeros. The system provides memory for a large allocation only when
    /// it is written to.
    pub fn zeroed(len: u64) -> Result<Self> {
        let refusal = || Error::limit(format!("{len} bytes do not fit in memory"));
        let len = usize::try_from(len).map_err(|_| refusal())?;
        let layout = Layout::from_size_align(len, align_of::<Line>()).map_err(|_| refusal())?;
        let start = match len {
            0 => NonNull::<Line>::dangling().cast(),
            // SAFETY: the layout has a length other than 0.
            _ => NonNull::new(unsafe { alloc::alloc_zeroed(layout) }).ok_or_else(refusal)?,
        };
        Ok(Self { start, layout })
    }

    pub fn len(&self) -> usize {
        self.layout.size()
    }

    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: `start` points to `len` initialised bytes, and `&mut self` is the
        // only borrow of them.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len()) }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        if self.len() > 0 {
            // SAFETY: the memory was allocated with this layout, and `self` is being
            // dropped.
            unsafe { alloc::dealloc(self.start.as_ptr(), self.layout) }
        }
    }
}

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
