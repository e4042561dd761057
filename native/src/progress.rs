//! The callbacks through which a caller watches work, and progresses that count towards
//! another one.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{FinishedTensor, Result};

/// Watches work on a checkpoint. Its methods may be called from any thread; the
/// implementation for `()` ignores all calls. A [`CancelToken`](crate::CancelToken)
/// ends the work at any time, even from one of these methods.
///
/// Packing, unpacking, verifying and converting consist of one phase or two: if a
/// packed base has to be restored first, [`Progress::phase`] reports that, and reports
/// when the main work begins.
pub trait Progress: Sync {
    /// Called when work on `len_bytes` bytes of original data begins, and again if the
    /// total turns out to be larger.
    fn begin(&self, len_bytes: u64);
    /// Called when `len_bytes` more bytes of original data are finished.
    fn advance(&self, len_bytes: u64);
    /// Called while a file that the work requires is being downloaded, with the number
    /// of bytes received so far, and the length of the file if it is known. Shards that
    /// are downloaded at the same time count as one file, whose length grows when
    /// another download begins.
    fn fetching(&self, so_far_bytes: u64, len_bytes: Option<u64>) {
        let _ = (so_far_bytes, len_bytes);
    }
    /// Returns whether [`Progress::tensor`] should be called: determining how a tensor
    /// is stored takes a little time. The default is false.
    fn wants_tensors(&self) -> bool {
        false
    }
    /// Called when a tensor has been packed, unpacked, verified or converted.
    fn tensor(&self, tensor: &FinishedTensor<'_>) {
        let _ = tensor;
    }
    /// Called when a phase begins; the counts of the following calls start at 0.
    fn phase(&self, phase: Phase) {
        let _ = phase;
    }
    /// Called from time to time during work that [`Progress::advance`] does not count.
    ///
    /// # Errors
    /// An error ends the work, which returns it;
    /// [`Error::Cancelled`](crate::Error::Cancelled) is meant for this. Nothing is
    /// published in this case.
    fn check(&self) -> Result<()> {
        Ok(())
    }
    /// Called once when the result is complete, right before it appears: before a file
    /// or a folder gets its name, an upload is completed, or the last bytes are sent to
    /// a web server. No other method is called afterwards. It is not called for a
    /// writer, which has already received its bytes.
    ///
    /// # Errors
    /// An error ends the work, which returns it, and the result does not appear.
    fn publishing(&self) -> Result<()> {
        self.check()
    }
}

/// Watches work on a temporary file that no other process sees: forwards every call
/// except [`Progress::publishing`].
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

/// The progress of a part of the work, such as one shard, which counts towards the
/// progress of the whole.
pub(crate) struct Part<'a> {
    whole: &'a dyn Progress,
    left_bytes: AtomicU64,
}

impl<'a> Part<'a> {
    /// Returns the progress of a part that counts for up to `len_bytes`.
    pub(crate) fn new(whole: &'a dyn Progress, len_bytes: u64) -> Self {
        Self {
            whole,
            left_bytes: AtomicU64::new(len_bytes),
        }
    }

    /// Counts the remaining bytes as done: headers and aliases are not reported
    /// otherwise.
    pub(crate) fn finish(&self) {
        self.whole.advance(self.left_bytes.load(Relaxed));
    }
}

impl Progress for Part<'_> {
    fn begin(&self, _: u64) {}

    fn advance(&self, len_bytes: u64) {
        let take = |left: u64| Some(left.saturating_sub(len_bytes));
        if let Ok(before) = self.left_bytes.fetch_update(Relaxed, Relaxed, take) {
            self.whole.advance(before.min(len_bytes));
        }
    }

    fn fetching(&self, so_far_bytes: u64, len_bytes: Option<u64>) {
        self.whole.fetching(so_far_bytes, len_bytes);
    }

    fn wants_tensors(&self) -> bool {
        self.whole.wants_tensors()
    }

    fn tensor(&self, tensor: &FinishedTensor<'_>) {
        self.whole.tensor(tensor);
    }
}

/// The progress of restoring several files sequentially, with one total.
pub(crate) struct Total<'a> {
    progress: &'a dyn Progress,
    len_bytes: AtomicU64,
}

impl<'a> Total<'a> {
    pub(crate) fn new(progress: &'a dyn Progress) -> Self {
        Self {
            progress,
            len_bytes: AtomicU64::new(0),
        }
    }
}

impl Progress for Total<'_> {
    fn begin(&self, len_bytes: u64) {
        let before = self.len_bytes.fetch_add(len_bytes, Relaxed);
        self.progress.begin(before.saturating_add(len_bytes));
    }

    fn advance(&self, len_bytes: u64) {
        self.progress.advance(len_bytes);
    }
}

/// A phase of the work that a [`Progress`] watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// A packed base is restored into a temporary file.
    RestoreBase,
    /// The requested work.
    Main,
}

impl Progress for () {
    fn begin(&self, _: u64) {}
    fn advance(&self, _: u64) {}
}
