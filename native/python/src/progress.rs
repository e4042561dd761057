//! Watching work from Python.

use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use pyo3::prelude::*;
use zstn::{Phase, Progress};

/// What [`panic::resume_unwind`] carries out of work that is to stop.
struct Stopped;

/// Counts work, for a Python callable that the thread which waits for the work
/// calls now and then: `callable(done_bytes, total_bytes)`.
#[derive(Clone)]
pub struct Watch {
    counts: Arc<Counts>,
    callable: Option<Arc<Py<PyAny>>>,
}

#[derive(Default)]
struct Counts {
    total_bytes: AtomicU64,
    done_bytes: AtomicU64,
    is_stopping: AtomicBool,
}

impl Watch {
    pub fn new(callable: Option<Py<PyAny>>) -> Self {
        Self {
            counts: Arc::default(),
            callable: callable.map(Arc::new),
        }
    }

    /// Returns a watch for work that nobody watches.
    pub fn none() -> Self {
        Self::new(None)
    }

    pub fn is_watched(&self) -> bool {
        self.callable.is_some()
    }

    /// Asks the work to stop. It does so at its next step.
    pub fn stop(&self) {
        self.counts.is_stopping.store(true, Relaxed);
    }

    /// Calls the callable, if something is known.
    pub fn report(&self, py: Python<'_>) -> PyResult<()> {
        let total = self.counts.total_bytes.load(Relaxed);
        let done = self.counts.done_bytes.load(Relaxed);
        match &self.callable {
            Some(callable) if total > 0 => callable.call1(py, (done, total)).map(drop),
            _ => Ok(()),
        }
    }
}

impl Progress for Watch {
    fn begin(&self, len_bytes: u64) {
        self.counts.total_bytes.store(len_bytes, Relaxed);
    }

    fn advance(&self, len_bytes: u64) {
        if self.counts.is_stopping.load(Relaxed) {
            // The library has no other way to stop from inside. Outputs are
            // removed as their owners are dropped. Without the message of a
            // panic: nothing went wrong.
            panic::resume_unwind(Box::new(Stopped));
        }
        self.counts.done_bytes.fetch_add(len_bytes, Relaxed);
    }

    fn phase(&self, _: Phase) {
        self.counts.total_bytes.store(0, Relaxed);
        self.counts.done_bytes.store(0, Relaxed);
    }
}
