//! The safetensors file equivalent to a model, readable by range.

use std::ffi::c_void;

use zstn::SafetensorsView;

use crate::pointer;
use crate::reader::zstn_reader;
use crate::status::{self, Failure, zstn_error, zstn_status};
use crate::structure::{self, Structure};

/// The safetensors file that a model is read as. The caller sets `struct_size`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zstn_unpacked {
    /// `sizeof(zstn_unpacked)`.
    pub struct_size: usize,
    /// Length of the file in bytes.
    pub len: u64,
    /// 1 if this is, byte for byte, the file that was packed; 0 if the library made its
    /// header.
    pub is_original: i32,
    /// 1 if `sha256` is set.
    pub has_sha256: i32,
    /// SHA-256 of the file; model hubs and git-lfs identify the file by it.
    pub sha256: [u8; 32],
}

// SAFETY: zeros are valid, and the 32-bit fields are even in number, so no padding is at
// the end.
unsafe impl Structure for zstn_unpacked {}

/// Returns the safetensors file of a reader, and creates it on the first call.
fn view(reader: &zstn_reader) -> Result<&SafetensorsView, Failure> {
    if let Some(view) = reader.unpacked.get() {
        return Ok(view);
    }
    let view = SafetensorsView::new(reader.reader.clone(), reader.cache_bytes)?;
    // If another thread has been faster, its equal view is used.
    Ok(reader.unpacked.get_or_init(|| view))
}

/// Describes the safetensors file that the model is read as; for a packed file, this is
/// the file that was packed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_unpacked_describe(
    reader: *const zstn_reader,
    unpacked: *mut zstn_unpacked,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: the header requires that `reader` is NULL or a live handle.
        let view = view(unsafe { pointer::reference(reader, "the reader") }?)?;
        let sha256 = view.sha256();
        let value = zstn_unpacked {
            struct_size: size_of::<zstn_unpacked>(),
            len: view.len_bytes(),
            is_original: view.is_original().into(),
            has_sha256: sha256.is_some().into(),
            sha256: sha256.copied().unwrap_or_default(),
        };
        // SAFETY: the header requires that `unpacked` is NULL or a structure with its
        // size set.
        unsafe { structure::fill(unpacked, &value, "the structure to fill") }
    })
}

/// Reads `len` bytes at `offset` of that file; the range must lie inside the file. Only
/// the tensors in the range are decoded, and some are cached for the next call. After
/// an error, the content of `out` is undefined.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_unpacked_read_at(
    reader: *const zstn_reader,
    offset: u64,
    out: *mut c_void,
    len: usize,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: the header requires that `reader` is NULL or a live handle.
        let view = view(unsafe { pointer::reference(reader, "the reader") }?)?;
        // SAFETY: the header requires that `out` is NULL or a buffer of that capacity.
        let out = unsafe { pointer::buffer(out, len, len as u64) }?;
        Ok(view.read_into(offset, out)?)
    })
}
