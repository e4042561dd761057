//! Handles: values of the library that the caller holds by pointer.

use std::panic::{self, AssertUnwindSafe};
use std::ptr;

use crate::status::Failure;

/// The out parameter through which a function returns a handle. It is NULL until the
/// function succeeds.
pub struct Out<T>(*mut *mut T);

impl<T> Out<T> {
    /// Sets the parameter to NULL.
    ///
    /// # Safety
    /// `out` is NULL or points to a pointer that may be written until the value is
    /// dropped.
    pub unsafe fn new(out: *mut *mut T) -> Result<Self, Failure> {
        if out.is_null() {
            return Err(Failure::usage("the address for the new handle is NULL"));
        }
        // SAFETY: `out` is not NULL, so it may be written; the old value is not read.
        unsafe { out.write(ptr::null_mut()) };
        Ok(Self(out))
    }

    pub fn set(self, value: T) {
        // SAFETY: `new` requires that the address may be written until `self` is
        // dropped.
        unsafe { self.0.write(Box::into_raw(Box::new(value))) };
    }
}

/// Frees a handle. Does nothing for NULL.
///
/// # Safety
/// `handle` is NULL or was returned by [`Out::set`], and is not used again.
pub unsafe fn free<T>(handle: *mut T) {
    if handle.is_null() {
        return;
    }
    // SAFETY: `Out::set` made the pointer from a `Box`, and it is not used again.
    let value = unsafe { Box::from_raw(handle) };
    // This function has no way to report a panic to its caller.
    let _ = panic::catch_unwind(AssertUnwindSafe(|| drop(value)));
}
