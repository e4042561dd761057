//! The safetensors file that a model amounts to, by range.

use std::ffi::c_void;

use zstn::SafetensorsView;

use crate::pointer;
use crate::reader::zstn_reader;
use crate::status::{self, Failure, zstn_error, zstn_status};
use crate::structure::{self, Structure};

/// The safetensors file that a model amounts to. The caller sets `struct_size`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zstn_unpacked {
    /// `sizeof(zstn_unpacked)`.
    pub struct_size: usize,
    /// Length of the file in bytes.
    pub len: u64,
    /// 1 if it is, byte for byte, the file that was packed; 0 if its header was
    /// made by the library.
    pub is_original: i32,
    /// 1 if `sha256` is known.
    pub has_sha256: i32,
    /// SHA-256 of the file, which model hubs and git-lfs know it by.
    pub sha256: [u8; 32],
}

// SAFETY: such a structure: it ends in an even number of 32 bits.
unsafe impl Structure for zstn_unpacked {}

/// Returns the file of a reader.
fn view(reader: &zstn_reader) -> Result<&SafetensorsView, Failure> {
    if let Some(view) = reader.unpacked.get() {
        return Ok(view);
    }
    let view = SafetensorsView::new(reader.reader.clone(), reader.cache_bytes)?;
    // Another thread may have been faster; both are the same.
    Ok(reader.unpacked.get_or_init(|| view))
}

/// Describes the safetensors file that the model amounts to: for a packed file,
/// the file that was packed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_unpacked_describe(
    reader: *const zstn_reader,
    unpacked: *mut zstn_unpacked,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: NULL or a handle, as the header says.
        let view = view(unsafe { pointer::reference(reader, "the reader") }?)?;
        let sha256 = view.sha256();
        let value = zstn_unpacked {
            struct_size: size_of::<zstn_unpacked>(),
            len: view.len_bytes(),
            is_original: view.is_original().into(),
            has_sha256: sha256.is_some().into(),
            sha256: sha256.copied().unwrap_or_default(),
        };
        // SAFETY: an out parameter that says its size.
        unsafe { structure::fill(unpacked, &value, "the structure to fill") }
    })
}

/// Reads `len` bytes at `offset` of that file, all of which have to exist. Tensors
/// are decoded where they are read; some are kept for the next call. `out` may
/// hold anything after an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn zstn_unpacked_read_at(
    reader: *const zstn_reader,
    offset: u64,
    out: *mut c_void,
    len: usize,
    error: *mut zstn_error,
) -> zstn_status {
    status::run(error, || {
        // SAFETY: NULL or a handle, as the header says.
        let view = view(unsafe { pointer::reference(reader, "the reader") }?)?;
        // SAFETY: a buffer of the caller.
        let out = unsafe { pointer::buffer(out, len, len as u64) }?;
        Ok(view.read_into(offset, out)?)
    })
}
