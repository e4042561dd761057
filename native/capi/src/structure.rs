//! Structures that begin with their size, so that callers and libraries of
//! different versions understand each other.

use std::mem::MaybeUninit;
use std::ptr;
use std::slice;

use crate::status::Failure;

/// More than any version will ever have: the size was not set.
const MAX_BYTES: usize = 4096;

/// A structure of the caller that begins with `struct_size`.
///
/// # Safety
/// It is `repr(C)`, its first field is that `usize`, all zeros are a valid
/// value, and it has no padding at its end: a later field there would not change
/// its size.
pub unsafe trait Structure: Copy {}

/// Returns a structure that is all zeros, with its size.
pub fn zeroed<T: Structure>() -> T {
    let mut value = MaybeUninit::<T>::zeroed();
    // SAFETY: it begins with that field, and zeros are a valid value.
    unsafe {
        value.as_mut_ptr().cast::<usize>().write(size_of::<T>());
        value.assume_init()
    }
}

/// Returns the size that a structure says it has.
///
/// # Safety
/// `pointer` is one to a structure that begins with its size.
unsafe fn size<T: Structure>(pointer: *const T, what: &str) -> Result<usize, Failure> {
    // SAFETY: see above.
    let size = unsafe { pointer.cast::<usize>().read_unaligned() };
    match (size_of::<usize>()..=MAX_BYTES).contains(&size) {
        true => Ok(size),
        false => Err(Failure::usage(format!(
            "struct_size of {what} is {size}; set it to the size of the structure"
        ))),
    }
}

/// Reads a structure of the caller. Fields that an older caller does not have
/// are zero; those that only a newer one has must be.
///
/// # Safety
/// `pointer` is NULL or valid for the size that the structure says.
pub unsafe fn read<T: Structure>(pointer: *const T, what: &str) -> Result<Option<T>, Failure> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: see above.
    let size = unsafe { size(pointer, what) }?;
    // SAFETY: see above.
    let given = unsafe { slice::from_raw_parts(pointer.cast::<u8>(), size) };
    let known = size.min(size_of::<T>());
    if given[known..].iter().any(|byte| *byte != 0) {
        return Err(Failure::usage(format!(
            "{what} asks for something that this version of the library does not know"
        )));
    }
    let mut value = zeroed::<T>();
    // SAFETY: both have as many bytes, which make a valid value.
    unsafe { ptr::copy_nonoverlapping(given.as_ptr(), (&raw mut value).cast(), known) };
    Ok(Some(value))
}

/// Fills a structure of the caller, who has set its size. Fields that only a
/// newer caller has become zero.
///
/// # Safety
/// `out` is NULL or valid for the size that the structure says.
pub unsafe fn fill<T: Structure>(out: *mut T, value: &T, what: &str) -> Result<(), Failure> {
    if out.is_null() {
        return Err(Failure::usage(format!("{what} is NULL")));
    }
    // SAFETY: see above.
    let size = unsafe { size(out, what) }?;
    let (first, end) = (size_of::<usize>(), size.min(size_of::<T>()));
    // SAFETY: everything lies inside of both; the size stays.
    unsafe {
        let (to, from) = (out.cast::<u8>(), ptr::from_ref(value).cast::<u8>());
        ptr::copy_nonoverlapping(from.add(first), to.add(first), end - first);
        ptr::write_bytes(to.add(end), 0, size - end);
    }
    Ok(())
}
