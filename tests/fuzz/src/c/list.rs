//! What a model lists: tensors and metadata.

use std::ffi::{CStr, CString, c_char};
use std::{mem, ptr, slice};

use zstn_capi::{
    ZSTN_ERROR_USAGE, ZSTN_NONE, zstn_metadata, zstn_model, zstn_model_find, zstn_model_kind,
    zstn_model_metadata, zstn_model_metadata_count, zstn_model_needs_base, zstn_model_tensor,
    zstn_model_tensor_count, zstn_tensor,
};

use super::{call, text};

/// A tensor of the list.
#[derive(Debug, PartialEq)]
pub struct Listed {
    /// Up to the first NUL, as functions take it.
    pub name: CString,
    /// Whether the name has no NUL. C cannot ask for a tensor whose name has one.
    pub has_name: bool,
    pub dtype: CString,
    pub shape: Vec<u64>,
    pub len_bytes: u64,
    pub stored_len_bytes: u64,
    pub needs_base: bool,
    alias_of: u64,
}

/// Reads the list of a model, and checks it.
///
/// # Safety
/// It is a handle that is not freed meanwhile.
pub unsafe fn tensors(model: *const zstn_model) -> Vec<Listed> {
    // SAFETY: see above.
    let (count, kind, needs_base) = unsafe {
        (
            zstn_model_tensor_count(model),
            text(zstn_model_kind(model)),
            zstn_model_needs_base(model),
        )
    };
    assert!(!kind.is_empty() && [0, 1].contains(&needs_base));
    // SAFETY: see above.
    let tensors = (0..count).map(|number| unsafe { tensor(model, number) });
    let tensors: Vec<Listed> = tensors.collect();
    for (number, tensor) in (0..).zip(&tensors) {
        assert!(tensor.alias_of == ZSTN_NONE || tensor.alias_of < count as u64);
        assert!(tensor.alias_of != number);
        assert!(needs_base == 1 || !tensor.needs_base);
    }
    let mut none = unset();
    let refused = call(|error| {
        // SAFETY: a handle, a structure with its size, memory for an error.
        unsafe { zstn_model_tensor(model, count, &raw mut none, error) }
    });
    assert_eq!(refused, Err(ZSTN_ERROR_USAGE));
    // SAFETY: see above.
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

/// Reads an entry of the list.
///
/// # Safety
/// That of [`tensors`].
unsafe fn tensor(model: *const zstn_model, number: usize) -> Listed {
    let mut tensor = unset();
    let listed = call(|error| {
        // SAFETY: a handle, a structure with its size, memory for an error.
        unsafe { zstn_model_tensor(model, number, &raw mut tensor, error) }
    });
    listed.expect("a tensor of the list");
    // SAFETY: texts of the model.
    let (name, dtype) = unsafe { (named(tensor.name, tensor.name_len), text(tensor.dtype)) };
    let shape = match tensor.rank {
        0 => &[],
        // SAFETY: as many numbers of the model.
        rank => unsafe { slice::from_raw_parts(tensor.shape, rank) },
    };
    let elements = shape.iter().map(|size| u128::from(*size)).product::<u128>();
    let bits = u128::try_from(tensor.dtype_bits).expect("bits of an element");
    assert_eq!((elements * bits).div_ceil(8), u128::from(tensor.len));
    let has_name = name.to_bytes().len() == tensor.name_len;
    if has_name {
        let mut found = usize::MAX;
        let outcome = call(|error| {
            // SAFETY: a handle, a text, the address of a number, memory for an error.
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

/// Reads all metadata, which is sorted by key.
///
/// # Safety
/// That of [`tensors`].
unsafe fn metadata(model: *const zstn_model) {
    // SAFETY: see above.
    let count = unsafe { zstn_model_metadata_count(model) };
    let entry = |number| {
        // SAFETY: pointers and lengths, of which zeros are valid.
        let mut entry: zstn_metadata = unsafe { mem::zeroed() };
        call(|error| {
            // SAFETY: a handle, a structure, memory for an error.
            unsafe { zstn_model_metadata(model, number, &raw mut entry, error) }
        })
        .map(|()| entry)
    };
    let mut last: Option<&[u8]> = None;
    for number in 0..count {
        let entry = entry(number).expect("an entry of the list");
        // SAFETY: texts of the model.
        unsafe { named(entry.value, entry.value_len) };
        // SAFETY: the same, with its length.
        let key = unsafe {
            named(entry.key, entry.key_len);
            slice::from_raw_parts(entry.key.cast::<u8>(), entry.key_len)
        };
        assert!(last.is_none_or(|last| last < key));
        last = Some(key);
    }
    assert_eq!(entry(count).map(|_| ()), Err(ZSTN_ERROR_USAGE));
}

/// Returns a text with a length, up to its first NUL. A forged one may have some
/// before the one that ends it.
///
/// # Safety
/// It is valid for one byte more, as long as the result is used.
unsafe fn named<'a>(start: *const c_char, len: usize) -> &'a CStr {
    assert!(!start.is_null());
    // SAFETY: see above.
    let bytes = unsafe { slice::from_raw_parts(start.cast::<u8>(), len + 1) };
    let (end, all) = bytes.split_last().expect("at least a NUL");
    assert!(*end == 0 && str::from_utf8(all).is_ok());
    CStr::from_bytes_until_nul(bytes).expect("it ends in a NUL")
}
