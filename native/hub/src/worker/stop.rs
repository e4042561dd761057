//! Requests to stop work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A shared flag that requests the end of the work. It takes effect between two files.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Requests the end of the work.
    pub fn request(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Returns whether the end of the work has been requested.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
