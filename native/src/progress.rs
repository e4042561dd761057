//! Watching work.

use crate::FinishedTensor;

/// Watches work on a checkpoint. Its methods may be called from any thread; `()`
/// ignores all of them.
///
/// One call of a verb is one phase or two: where a packed base is restored
/// first, [`Progress::phase`] says so, and says when the work itself begins.
pub trait Progress: Sync {
    /// Called when work on `len_bytes` bytes of original data begins, and again
    /// if it turns out to be more.
    fn begin(&self, len_bytes: u64);
    /// Called when `len_bytes` more of them are done.
    fn advance(&self, len_bytes: u64);
    /// Called while a file is fetched that the work needs, with the bytes that
    /// are here and, if known, its length.
    fn fetching(&self, so_far_bytes: u64, len_bytes: Option<u64>) {
        let _ = (so_far_bytes, len_bytes);
    }
    /// Returns whether [`Progress::tensor`] is to be called: to find out how a tensor is
    /// stored takes a little time. By default it is not.
    fn wants_tensors(&self) -> bool {
        false
    }
    /// Called when a tensor has been packed, unpacked, verified or converted.
    fn tensor(&self, tensor: &FinishedTensor<'_>) {
        let _ = tensor;
    }
    /// Called when a phase begins; what follows counts from 0.
    fn phase(&self, phase: Phase) {
        let _ = phase;
    }
}

/// A phase of the work that a [`Progress`] watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// A packed base is restored into a temporary file.
    RestoreBase,
    /// The work that was asked for.
    Main,
}

impl Progress for () {
    fn begin(&self, _: u64) {}
    fn advance(&self, _: u64) {}
}
