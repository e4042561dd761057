//! Reports of packing, restoring and verifying.

use crate::status::Failure;
use crate::structure::{self, Structure};

/// The result of packing, restoring or verifying. The caller sets `struct_size`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zstn_report {
    /// `sizeof(zstn_report)`.
    pub struct_size: usize,
    /// Number of files that were packed, restored or verified.
    pub files: u64,
    /// For packing: number of tensors. For verifying: number of frames, records or
    /// tensors that were decoded. For unpacking: 0.
    pub tensors: u64,
    /// Total length of the packed files in bytes.
    pub packed_len: u64,
    /// Total length of the original files in bytes.
    pub original_len: u64,
    /// For verifying: 1 if all tensors were compared with those of the original.
    pub was_compared: i32,
    /// For verifying: 1 if every byte was compared with checksums in the files.
    pub has_checksums: i32,
    /// For verifying: 1 if every byte of every file was compared with the original and
    /// is the same.
    pub is_identical: i32,
    /// For verifying a folder: the number of files that were not checked, because
    /// copied files have no checksums.
    pub unchecked_files: u32,
}

// SAFETY: zeros are valid, and the 32-bit fields are even in number, so no padding is at
// the end.
unsafe impl Structure for zstn_report {}

/// Fills the caller's report. Does nothing for NULL.
///
/// # Safety
/// `out` is NULL or valid for the size in its `struct_size`.
pub unsafe fn fill(out: *mut zstn_report, value: &zstn_report) -> Result<(), Failure> {
    if out.is_null() {
        return Ok(());
    }
    // SAFETY: this function requires that `out` is valid if it is not NULL.
    unsafe { structure::fill(out, value, "the report") }
}

/// Refuses a report that could not be filled, before any work is done.
///
/// # Safety
/// `out` is NULL or valid for the size in its `struct_size`.
pub unsafe fn check(out: *mut zstn_report) -> Result<(), Failure> {
    // SAFETY: both functions require the same.
    unsafe { fill(out, &structure::zeroed()) }
}
