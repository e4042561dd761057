//! The caller's pointers: values, lists, strings, structures that begin with their
//! size, and handles.
//!
//! The lifetimes of references end with the call: the caller keeps everything that it
//! passes alive until the function returns.

use std::ffi::{CStr, c_char, c_void};
use std::mem::MaybeUninit;
use std::panic::{self, AssertUnwindSafe};
use std::{ptr, slice};

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

/// More than the size of any structure in any version. A larger `struct_size` was most
/// likely never set.
const MAX_BYTES: usize = 4096;

/// A structure of the caller that begins with `struct_size`, so that programs and
/// libraries of different versions are compatible.
///
/// # Safety
/// The type is `repr(C)`, its first field is the `usize` `struct_size`, it is valid
/// when zeroed, and it has no padding at its end. With padding there, a later version
/// could add a field without changing the size.
pub unsafe trait Structure: Copy {}

/// Returns a structure that is zeroed except for its size.
pub fn zeroed<T: Structure>() -> T {
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: a `Structure` begins with a `usize` and is valid when zeroed.
    unsafe {
        value.as_mut_ptr().cast::<usize>().write(size_of::<T>());
        value.assume_init()
    }
}

/// Returns the size that a structure states in its first field.
///
/// # Safety
/// `pointer` points to a structure that begins with its size.
unsafe fn size<T: Structure>(pointer: *const T, what: &str) -> Result<usize, Failure> {
    // SAFETY: this function requires that the structure begins with a `usize`.
    let size = unsafe { pointer.cast::<usize>().read_unaligned() };
    match (size_of::<usize>()..=MAX_BYTES).contains(&size) {
        true => Ok(size),
        false => Err(Failure::usage(format!(
            "struct_size of {what} is {size}; set it to the size of the structure"
        ))),
    }
}

/// Reads a structure of the caller. Fields that an older caller does not have become
/// zero; fields that only a newer caller has must be zero.
///
/// # Safety
/// `pointer` is NULL or valid for the size in its `struct_size`.
pub unsafe fn structure<T: Structure>(pointer: *const T, what: &str) -> Result<Option<T>, Failure> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the pointer is not NULL, so it begins with a size.
    let size = unsafe { size(pointer, what) }?;
    // SAFETY: this function requires that `pointer` is valid for `size` bytes.
    let given = unsafe { slice::from_raw_parts(pointer.cast::<u8>(), size) };
    let known = size.min(size_of::<T>());
    if given[known..].iter().any(|byte| *byte != 0) {
        return Err(Failure::usage(format!(
            "{what} uses a feature that this version of the library does not know"
        )));
    }
    let mut value = zeroed::<T>();
    // SAFETY: both have at least `known` bytes, and any prefix of a `Structure`
    // followed by zeros is a valid value.
    unsafe { ptr::copy_nonoverlapping(given.as_ptr(), (&raw mut value).cast(), known) };
    Ok(Some(value))
}

/// Fills a structure of the caller, who has set its size. Fields that only a newer
/// caller has become zero.
///
/// # Safety
/// `out` is NULL or valid for the size in its `struct_size`.
pub unsafe fn fill<T: Structure>(out: *mut T, value: &T, what: &str) -> Result<(), Failure> {
    if out.is_null() {
        return Err(Failure::usage(format!("{what} is NULL")));
    }
    // SAFETY: `out` is not NULL, so it begins with a size.
    let size = unsafe { size(out, what) }?;
    let (first, end) = (size_of::<usize>(), size.min(size_of::<T>()));
    // SAFETY: both structures have `end` bytes and `out` has `size`; the size field is
    // skipped.
    unsafe {
        let (to, from) = (out.cast::<u8>(), ptr::from_ref(value).cast::<u8>());
        ptr::copy_nonoverlapping(from.add(first), to.add(first), end - first);
        ptr::write_bytes(to.add(end), 0, size - end);
    }
    Ok(())
}

/// The out parameter through which a function returns a handle, a value of the library
/// that the caller holds by pointer. It is NULL until the function succeeds.
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
