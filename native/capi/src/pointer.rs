//! Pointers of the caller as references. Lifetimes are those of the call: the
//! caller keeps everything that it passes alive until the function returns.

use std::ffi::{CStr, c_char, c_void};
use std::slice;

use zstn::core::bytes::index;

use crate::status::Failure;

fn is_null(what: &str) -> Failure {
    Failure::usage(format!("{what} is NULL"))
}

/// Returns what `pointer` points to.
///
/// # Safety
/// It is NULL or valid during the call, and nobody changes it meanwhile.
pub unsafe fn reference<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Failure> {
    // SAFETY: see above.
    unsafe { pointer.as_ref() }.ok_or_else(|| is_null(what))
}

/// Returns what `pointer` points to, to be changed.
///
/// # Safety
/// It is NULL or valid during the call, and nobody else uses it meanwhile.
pub unsafe fn exclusive<'a, T>(pointer: *mut T, what: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: see above.
    unsafe { pointer.as_mut() }.ok_or_else(|| is_null(what))
}

/// Returns `count` values at `pointer`, which may be NULL if there are none.
///
/// # Safety
/// `count` values are valid during the call, and nobody changes them meanwhile.
pub unsafe fn list<'a, T>(pointer: *const T, count: usize, what: &str) -> Result<&'a [T], Failure> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(is_null(what));
    }
    check_len::<T>(count, what)?;
    // SAFETY: see above; the length has been checked.
    Ok(unsafe { slice::from_raw_parts(pointer, count) })
}

/// Returns `count` values at `pointer`, to be overwritten. Nothing reads them
/// before; memory of C that nobody has written to yet is as good as any.
///
/// # Safety
/// There is room for `count` values during the call, and nobody else uses it meanwhile.
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
    // SAFETY: see above; the length has been checked.
    Ok(unsafe { slice::from_raw_parts_mut(pointer, count) })
}

/// Refuses lengths that no memory has: most likely a negative number.
fn check_len<T>(count: usize, what: &str) -> Result<(), Failure> {
    let len_bytes = count.checked_mul(size_of::<T>());
    match len_bytes.is_some_and(|len| isize::try_from(len).is_ok()) {
        true => Ok(()),
        false => Err(Failure::usage(format!("{what} cannot have {count} items"))),
    }
}

/// Returns bytes of the caller.
///
/// # Safety
/// That of [`list`].
pub unsafe fn bytes<'a>(
    pointer: *const c_void,
    len: usize,
    what: &str,
) -> Result<&'a [u8], Failure> {
    // SAFETY: the same demand.
    unsafe { list(pointer.cast(), len, what) }
}

/// Returns the first `len_bytes` of the caller's buffer of `capacity`.
///
/// # Safety
/// That of [`list_mut`], for `capacity` bytes.
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
    // SAFETY: the same demand, for fewer bytes.
    unsafe { list_mut(pointer.cast(), index(len_bytes), "the buffer") }
}

/// Returns a text of the caller; NULL is none.
///
/// # Safety
/// It is NULL or ends in a NUL, and nobody changes it during the call.
pub unsafe fn optional_text<'a>(
    pointer: *const c_char,
    what: &str,
) -> Result<Option<&'a str>, Failure> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: see above.
    let text = unsafe { CStr::from_ptr(pointer) }.to_str();
    text.map(Some)
        .map_err(|_| Failure::usage(format!("{what} is not UTF-8")))
}

/// Returns a text of the caller.
///
/// # Safety
/// That of [`optional_text`].
pub unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Failure> {
    // SAFETY: the same demand.
    unsafe { optional_text(pointer, what) }?.ok_or_else(|| is_null(what))
}

/// Writes a result of the function to the caller's memory.
///
/// # Safety
/// `out` is NULL or an address of the caller's.
pub unsafe fn write<T>(out: *mut T, value: T, what: &str) -> Result<(), Failure> {
    if out.is_null() {
        return Err(is_null(what));
    }
    // SAFETY: see above.
    unsafe { out.write(value) };
    Ok(())
}
