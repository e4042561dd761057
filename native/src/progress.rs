//! Watching work.

use crate::{FinishedTensor, Result};

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
    /// Called now and then during work that [`Progress::advance`] does not count.
    ///
    /// # Errors
    /// An error ends the work, which returns it; [`Error::Cancelled`](crate::Error::Cancelled)
    /// is made for this. Nothing is published then.
    fn check(&self) -> Result<()> {
        Ok(())
    }
    /// Called once the result is complete, right before it appears: before a file or a
    /// folder gets its name, an upload is completed, or the last bytes are sent to a web
    /// server. No other method is called after it. It is not called for a writer, which
    /// has received its bytes already.
    ///
    /// # Errors
    /// An error ends the work, which returns it, and the result does not appear.
    fn publishing(&self) -> Result<()> {
        self.check()
    }
}

/// Watches work on a file that no other process sees: passes on everything but
/// [`Progress::publishing`].
pub struct Unpublished<'a>(pub &'a dyn Progress);

impl Progress for Unpublished<'_> {
    fn begin(&self, len_bytes: u64) {
        self.0.begin(len_bytes);
    }

    fn advance(&self, len_bytes: u64) {
        self.0.advance(len_bytes);
    }

    fn fetching(&self, so_far_bytes: u64, len_bytes: Option<u64>) {
        self.0.fetching(so_far_bytes, len_bytes);
    }

    fn wants_tensors(&self) -> bool {
        self.0.wants_tensors()
    }

    fn tensor(&self, tensor: &FinishedTensor<'_>) {
        self.0.tensor(tensor);
    }

    fn phase(&self, phase: Phase) {
        self.0.phase(phase);
    }

    fn check(&self) -> Result<()> {
        self.0.check()
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
