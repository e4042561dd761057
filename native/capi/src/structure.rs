//! Structures that begin with their size, so that programs and libraries of different
//! versions are compatible.

use std::mem::MaybeUninit;
use std::ptr;
use std::slice;

use crate::status::Failure;

/// More than the size of any structure in any version. A larger `struct_size` was most
/// likely never set.
const MAX_BYTES: usize = 4096;

/// A structure of the caller that begins with `struct_size`.
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
pub unsafe fn read<T: Structure>(pointer: *const T, what: &str) -> Result<Option<T>, Failure> {
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
