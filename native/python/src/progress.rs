//! Watching work from Python, and ending it.

use std::panic;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, mpsc};

use pyo3::prelude::*;
use zstn::{Error, Phase, Progress, Result};

/// What [`panic::resume_unwind`] carries out of work that is to stop.
struct Stopped;

/// The permission to use what belongs to the caller: arrays, file objects. It is
/// revoked for good when the caller gets an exception.
#[derive(Clone, Default)]
pub struct Lease(Arc<RwLock<bool>>);

impl Lease {
    /// Returns a guard under which the caller's things may be used. Revoking waits for it,
    /// so that it is held for a moment only.
    ///
    /// # Errors
    /// [`Error::Cancelled`] once the lease has been revoked.
    pub fn hold(&self) -> Result<RwLockReadGuard<'_, bool>> {
        let is_revoked = self.0.read().unwrap_or_else(PoisonError::into_inner);
        match *is_revoked {
            true => Err(Error::Cancelled),
            false => Ok(is_revoked),
        }
    }

    fn revoke(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = true;
    }

    fn is_revoked(&self) -> bool {
        *self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question of the thread that works: may the result appear?
pub type Question = mpsc::SyncSender<bool>;

/// Counts work, for a Python callable that the thread which waits for the work
/// calls now and then: `callable(done_bytes, total_bytes)`.
#[derive(Clone)]
pub struct Watch {
    counts: Arc<Counts>,
    callable: Option<Arc<Py<PyAny>>>,
    lease: Lease,
    /// The thread that waits for the work, while one does.
    caller: Arc<Mutex<Option<mpsc::Sender<Question>>>>,
}

#[derive(Default)]
struct Counts {
    total_bytes: AtomicU64,
    done_bytes: AtomicU64,
    is_stopping: AtomicBool,
    borrows: AtomicBool,
    makes_output: AtomicBool,
}

impl Watch {
    pub fn new(callable: Option<Py<PyAny>>) -> Self {
        Self {
            counts: Arc::default(),
            callable: callable.map(Arc::new),
            lease: Lease::default(),
            caller: Arc::default(),
        }
    }

    /// Returns a watch for work that nobody watches.
    pub fn none() -> Self {
        Self::new(None)
    }

    pub fn is_watched(&self) -> bool {
        self.callable.is_some()
    }

    /// Declares that the work reads memory of the caller without a [`Lease`]: no exception
    /// is raised before the work has ended.
    pub fn borrowing(self, borrows: bool) -> Self {
        self.counts.borrows.fetch_or(borrows, Relaxed);
        self
    }

    pub fn borrows(&self) -> bool {
        self.counts.borrows.load(Relaxed)
    }

    /// Declares that the work makes files, which are removed before an exception is raised.
    pub fn making_output(self) -> Self {
        self.counts.makes_output.store(true, Relaxed);
        self
    }

    pub fn makes_output(&self) -> bool {
        self.counts.makes_output.load(Relaxed)
    }

    /// Returns the permission to use what belongs to the caller.
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Has the work ask `caller` before its result appears, or nobody.
    pub fn set_caller(&self, caller: Option<mpsc::Sender<Question>>) {
        *self.caller.lock().unwrap_or_else(PoisonError::into_inner) = caller;
    }

    /// Asks the work to stop, which it does at its next step. From now on it uses nothing
    /// that belongs to the caller, except for memory that it borrows.
    pub fn stop(&self, py: Python<'_>) {
        self.counts.is_stopping.store(true, Relaxed);
        // A thread may wait for the interpreter while it holds the lease.
        py.detach(|| self.lease.revoke());
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

    fn fetching(&self, _: u64, _: Option<u64>) {
        if self.counts.is_stopping.load(Relaxed) {
            panic::resume_unwind(Box::new(Stopped));
        }
    }

    fn phase(&self, _: Phase) {
        self.counts.total_bytes.store(0, Relaxed);
        self.counts.done_bytes.store(0, Relaxed);
    }

    fn check(&self) -> Result<()> {
        match self.lease.is_revoked() {
            true => Err(Error::Cancelled),
            false => Ok(()),
        }
    }

    /// Asks the thread that waits for the work, which reports the progress for the last
    /// time and looks for signals.
    fn publishing(&self) -> Result<()> {
        let locked = self.caller.lock();
        let caller = locked.unwrap_or_else(PoisonError::into_inner).clone();
        let Some(caller) = caller else {
            return self.check();
        };
        let (question, answer) = mpsc::sync_channel(1);
        // It answers no questions of work that it has left behind.
        match caller.send(question).is_ok() && answer.recv() == Ok(true) {
            true => Ok(()),
            false => Err(Error::Cancelled),
        }
    }
}
