//! Reports of work on whole checkpoints.

use crate::status::Failure;
use crate::structure::{self, Structure};

/// The result of work on a checkpoint. The caller sets `struct_size`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct zstn_report {
    /// `sizeof(zstn_report)`.
    pub struct_size: usize,
    /// Number of files that were packed, restored or verified.
    pub files: u64,
    /// Number of tensors that were packed or verified; 0 for unpacking.
    pub tensors: u64,
    /// Length of the packed files in bytes.
    pub packed_len: u64,
    /// Length of the original files in bytes.
    pub original_len: u64,
    /// For verifying: 1 if all tensors were compared with those of the original.
    pub was_compared: i32,
    /// For verifying: 1 if every byte was compared with checksums in the files.
    pub has_checksums: i32,
    /// For verifying: 1 if every byte of every file was compared with the original and
    /// is the same.
    pub is_identical: i32,
    /// For verifying a folder: the number of files that were not checked, since copied
    /// files have no checksums.
    pub unchecked_files: u32,
}

// SAFETY: such a structure: it ends in an even number of 32 bits.
unsafe impl Structure for zstn_report {}

/// Fills a report of the caller, if there is one.
///
/// # Safety
/// `out` is NULL or a structure that says its size.
pub unsafe fn fill(out: *mut zstn_report, value: &zstn_report) -> Result<(), Failure> {
    if out.is_null() {
        return Ok(());
    }
    // SAFETY: see above.
    unsafe { structure::fill(out, value, "the report") }
}

/// Refuses a report that could not be filled, before any work is done.
///
/// # Safety
/// That of [`fill`].
pub unsafe fn check(out: *mut zstn_report) -> Result<(), Failure> {
    // SAFETY: the same demand.
    unsafe { fill(out, &structure::zeroed()) }
}
