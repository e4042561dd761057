//! The wish that work ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Asks for the end of work between two files.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks for it.
    pub fn request(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Returns whether somebody has asked for it.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
