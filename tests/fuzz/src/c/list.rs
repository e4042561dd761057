//! The lists of tensors and metadata of a model.

use std::ffi::{CStr, CString, c_char};
use std::{mem, ptr, slice};

use zstn_capi::{
    ZSTN_ERROR_USAGE, ZSTN_NONE, zstn_metadata, zstn_model, zstn_model_find, zstn_model_kind,
    zstn_model_metadata, zstn_model_metadata_count, zstn_model_needs_base, zstn_model_tensor,
    zstn_model_tensor_count, zstn_tensor,
};

use super::{call, text};

/// A tensor in the list of a model.
#[derive(Debug, PartialEq)]
pub struct Listed {
    /// The name up to its first NUL, in the form that C functions accept.
    pub name: CString,
    /// True if `name` is the complete name. In C, a tensor whose name contains a NUL
    /// cannot be requested.
    pub has_name: bool,
    pub dtype: CString,
    pub shape: Vec<u64>,
    pub len_bytes: u64,
    pub stored_len_bytes: u64,
    pub needs_base: bool,
    alias_of: u64,
}

/// Reads the list of a model and checks its consistency.
///
/// # Safety
/// `model` is a valid handle that is not freed during the call.
pub unsafe fn tensors(model: *const zstn_model) -> Vec<Listed> {
    // SAFETY: the caller guarantees that `model` is a valid handle; `text` is used only
    // while the handle is valid.
    let (count, kind, needs_base) = unsafe {
        (
            zstn_model_tensor_count(model),
            text(zstn_model_kind(model)),
            zstn_model_needs_base(model),
        )
    };
    assert!(!kind.is_empty() && [0, 1].contains(&needs_base));
    // SAFETY: the caller guarantees that `model` is a valid handle during this
    // function.
    let tensors = (0..count).map(|number| unsafe { tensor(model, number) });
    let tensors: Vec<Listed> = tensors.collect();
    for (number, tensor) in (0..).zip(&tensors) {
        assert!(tensor.alias_of == ZSTN_NONE || tensor.alias_of < count as u64);
        assert!(tensor.alias_of != number);
        assert!(needs_base == 1 || !tensor.needs_base);
    }
    let mut none = unset();
    let refused = call(|error| {
        // SAFETY: `model` is a valid handle, `none` is a `zstn_tensor` with its
        // `struct_size` set, and `error` comes from `call`.
        unsafe { zstn_model_tensor(model, count, &raw mut none, error) }
    });
    assert_eq!(refused, Err(ZSTN_ERROR_USAGE));
    // SAFETY: the caller guarantees that `model` is a valid handle.
    unsafe { metadata(model) };
    tensors
}

fn unset() -> zstn_tensor {
    zstn_tensor {
        struct_size: size_of::<zstn_tensor>(),
        name: ptr::null(),
        name_len: 0,
        dtype: ptr::null(),
        shape: ptr::null(),
        rank: 0,
        len: 0,
        stored_len: 0,
        alias_of: 0,
        dtype_bits: 0,
        needs_base: 0,
    }
}

/// Reads the tensor with index `number`.
///
/// # Safety
/// The requirements of [`tensors`] apply.
unsafe fn tensor(model: *const zstn_model, number: usize) -> Listed {
    let mut tensor = unset();
    let listed = call(|error| {
        // SAFETY: `model` is a valid handle, `tensor` is a `zstn_tensor` with its
        // `struct_size` set, and `error` comes from `call`.
        unsafe { zstn_model_tensor(model, number, &raw mut tensor, error) }
    });
    listed.expect("a tensor of the list");
    // SAFETY: the library stored NUL-terminated strings that live as long as the model;
    // `name_len` excludes the NUL.
    let (name, dtype) = unsafe { (named(tensor.name, tensor.name_len), text(tensor.dtype)) };
    let shape = match tensor.rank {
        0 => &[],
        // SAFETY: the library stored a pointer to `rank` numbers that live as long as
        // the model.
        rank => unsafe { slice::from_raw_parts(tensor.shape, rank) },
    };
    let elements = shape.iter().map(|size| u128::from(*size)).product::<u128>();
    let bits = u128::try_from(tensor.dtype_bits).expect("bits of an element");
    assert_eq!((elements * bits).div_ceil(8), u128::from(tensor.len));
    let has_name = name.to_bytes().len() == tensor.name_len;
    if has_name {
        let mut found = usize::MAX;
        let outcome = call(|error| {
            // SAFETY: `model` is a valid handle, `name` is NUL-terminated, `found` is
            // writable, and `error` comes from `call`.
            unsafe { zstn_model_find(model, name.as_ptr(), &raw mut found, error) }
        });
        assert_eq!((outcome, found), (Ok(()), number));
    }
    Listed {
        name: name.into(),
        has_name,
        dtype: dtype.into(),
        shape: shape.to_vec(),
        len_bytes: tensor.len,
        stored_len_bytes: tensor.stored_len,
        needs_base: tensor.needs_base == 1,
        alias_of: tensor.alias_of,
    }
}

/// Reads all metadata, which must be sorted by key.
///
/// # Safety
/// The requirements of [`tensors`] apply.
unsafe fn metadata(model: *const zstn_model) {
    // SAFETY: the caller guarantees that `model` is a valid handle.
    let count = unsafe { zstn_model_metadata_count(model) };
    let entry = |number| {
        // SAFETY: `zstn_metadata` consists of pointers and lengths, and all-zero bytes
        // are valid for both.
        let mut entry: zstn_metadata = unsafe { mem::zeroed() };
        call(|error| {
            // SAFETY: `model` is a valid handle, `entry` is a writable `zstn_metadata`,
            // and `error` comes from `call`.
            unsafe { zstn_model_metadata(model, number, &raw mut entry, error) }
        })
        .map(|()| entry)
    };
    let mut last: Option<&[u8]> = None;
    for number in 0..count {
        let entry = entry(number).expect("an entry of the list");
        // SAFETY: the library stored a string with its length that is followed by a NUL
        // and lives as long as the model.
        unsafe { named(entry.value, entry.value_len) };
        // SAFETY: the key is such a string, too, so its first `key_len` bytes are
        // readable.
        let key = unsafe {
            named(entry.key, entry.key_len);
            slice::from_raw_parts(entry.key.cast::<u8>(), entry.key_len)
        };
        assert!(last.is_none_or(|last| last < key));
        last = Some(key);
    }
    assert_eq!(entry(count).map(|_| ()), Err(ZSTN_ERROR_USAGE));
}

/// Returns a string of `len` bytes up to its first NUL. A forged string may contain
/// NULs before the one that terminates it.
///
/// # Safety
/// `start` is null or points to `len + 1` bytes that stay valid while the result is
/// used.
unsafe fn named<'a>(start: *const c_char, len: usize) -> &'a CStr {
    assert!(!start.is_null());
    // SAFETY: `start` is not null, so the caller guarantees `len + 1` readable bytes.
    let bytes = unsafe { slice::from_raw_parts(start.cast::<u8>(), len + 1) };
    let (end, all) = bytes.split_last().expect("at least a NUL");
    assert!(*end == 0 && str::from_utf8(all).is_ok());
    CStr::from_bytes_until_nul(bytes).expect("it ends in a NUL")
}
