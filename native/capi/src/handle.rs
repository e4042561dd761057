//! Handles: values of the library that the caller holds by a pointer.

use std::panic::{self, AssertUnwindSafe};
use std::ptr;

use crate::status::Failure;

/// An out parameter for a handle. It is NULL until the function succeeds.
pub struct Out<T>(*mut *mut T);

impl<T> Out<T> {
    /// Sets the parameter to NULL.
    ///
    /// # Safety
    /// `out` is NULL or the address of a pointer of the caller.
    pub unsafe fn new(out: *mut *mut T) -> Result<Self, Failure> {
        if out.is_null() {
            return Err(Failure::usage("the address for the new handle is NULL"));
        }
        // SAFETY: an address of the caller's, which may be uninitialised.
        unsafe { out.write(ptr::null_mut()) };
        Ok(Self(out))
    }

    pub fn set(self, value: T) {
        // SAFETY: the address is valid until the function returns.
        unsafe { self.0.write(Box::into_raw(Box::new(value))) };
    }
}

/// Frees a handle; NULL is none.
///
/// # Safety
/// `handle` was returned by [`Out::set`] and is not used any more.
pub unsafe fn free<T>(handle: *mut T) {
    if handle.is_null() {
        return;
    }
    // SAFETY: see above.
    let value = unsafe { Box::from_raw(handle) };
    // There is nobody to report a panic to.
    let _ = panic::catch_unwind(AssertUnwindSafe(|| drop(value)));
}
