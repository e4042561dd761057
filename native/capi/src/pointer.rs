//! Conversion of the caller's pointers to references. Their lifetimes end with the
//! call: the caller keeps everything that it passes alive until the function returns.

use std::ffi::{CStr, c_char, c_void};
use std::slice;

use zstn::zstn_core::bytes::index;

use crate::status::Failure;

fn is_null(what: &str) -> Failure {
    Failure::usage(format!("{what} is NULL"))
}

/// Converts `pointer` to a reference; NULL is an error that names `what`.
///
/// # Safety
/// `pointer` is NULL or valid, and its target does not change during the call.
pub unsafe fn reference<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: this function requires that `pointer` is NULL or valid.
    unsafe { pointer.as_ref() }.ok_or_else(|| is_null(what))
}

/// Converts `pointer` to a mutable reference; NULL is an error that names `what`.
///
/// # Safety
/// `pointer` is NULL or valid, and nothing else uses its target during the call.
pub unsafe fn exclusive<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: this function requires a valid pointer without aliases, or NULL.
    unsafe { pointer.as_mut() }.ok_or_else(|| is_null(what))
}

/// Returns the `count` values at `pointer`, which may be NULL if `count` is 0.
///
/// # Safety
/// `pointer` is NULL or points to `count` values that do not change during the call.
pub unsafe fn list<'a, T>(pointer: *const T, count: usize, what: &str) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(is_null(what));
    }
    check_len::<T>(count, what)?;
    // SAFETY: this function requires `count` valid values; the length has been checked.
    Ok(unsafe { slice::from_raw_parts(pointer, count) })
}

/// Returns the memory for `count` values at `pointer`, which may be NULL if that is 0.
/// The library only writes to it, so a C program may pass uninitialised memory.
///
/// # Safety
/// `pointer` is NULL or has space for `count` values that nothing else uses during the
/// call.
pub unsafe fn list_mut<'a, T>(
    pointer: *mut T,
    count: usize,
    what: &str,
) -> Result<&'a mut [T], Failure> {
    if count == 0 {
        return Ok(&mut []);
    }
    if pointer.is_null() {
        return Err(is_null(what));
    }
    check_len::<T>(count, what)?;
    // SAFETY: this function requires space for `count` values; the length has been
    // checked.
    Ok(unsafe { slice::from_raw_parts_mut(pointer, count) })
}

/// Refuses a list too long for any memory, most likely a negative number cast to
/// `size_t`.
fn check_len<T>(count: usize, what: &str) -> Result<(), Failure> {
    let len_bytes = count.checked_mul(size_of::<T>());
    match len_bytes.is_some_and(|len| isize::try_from(len).is_ok()) {
        true => Ok(()),
        false => Err(Failure::usage(format!("{what} cannot have {count} items"))),
    }
}

/// Returns the `len` bytes at `pointer`, which may be NULL if `len` is 0.
///
/// # Safety
/// `pointer` is NULL or points to `len` bytes that do not change during the call.
pub unsafe fn bytes<'a>(
    pointer: *const c_void,
    len: usize,
    what: &str,
) -> Result<&'a [u8], Failure> {
    // SAFETY: `list` requires the same of `len` values.
    unsafe { list(pointer.cast(), len, what) }
}

/// Returns the first `len_bytes` of a caller's buffer of `capacity` bytes.
///
/// # Safety
/// `pointer` is NULL or has space for `capacity` bytes that nothing else uses during
/// the call.
pub unsafe fn buffer<'a>(
    pointer: *mut c_void,
    capacity: usize,
    len_bytes: u64,
) -> Result<&'a mut [u8], Failure> {
    if len_bytes > capacity as u64 {
        return Err(Failure::usage(format!(
            "the result has {len_bytes} bytes, the buffer for it {capacity}"
        )));
    }
    // SAFETY: the buffer has `capacity` bytes, and `len_bytes` is at most that.
    unsafe { list_mut(pointer.cast(), index(len_bytes), "the buffer") }
}

/// Returns a string of the caller, or `None` for NULL.
///
/// # Safety
/// `pointer` is NULL or a NUL-terminated string that does not change during the call.
pub unsafe fn optional_text<'a>(
    pointer: *const c_char,
    what: &str,
) -> Result<Option<&'a str>, Failure> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: this function requires a NUL-terminated string if `pointer` is not NULL.
    let text = unsafe { CStr::from_ptr(pointer) }.to_str();
    text.map(Some)
        .map_err(|_| Failure::usage(format!("{what} is not UTF-8")))
}

/// Returns a string of the caller; NULL is an error that names `what`.
///
/// # Safety
/// `pointer` is NULL or a NUL-terminated string that does not change during the call.
pub unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Failure> {
    // SAFETY: both functions require the same.
    unsafe { optional_text(pointer, what) }?.ok_or_else(|| is_null(what))
}

/// Writes a result of the function to the caller's memory.
///
/// # Safety
/// `out` is NULL or points to memory for a `T`.
pub unsafe fn write<T>(out: *mut T, value: T, what: &str) -> Result<(), Failure> {
    if out.is_null() {
        return Err(is_null(what));
    }
    // SAFETY: `out` is not NULL, so this function requires that it may be written.
    unsafe { out.write(value) };
    Ok(())
}
