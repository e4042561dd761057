//! Reporting the progress of work to Python, and stopping it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, mpsc};

use pyo3::prelude::*;
use zstn::{CancelToken, Error, Phase, Progress, Result};

/// The permission to use the caller's arrays and file objects. It is revoked
/// permanently when an exception reaches the caller.
#[derive(Clone, Default)]
pub struct Lease(Arc<RwLock<bool>>);

impl Lease {
    /// Returns a guard; while it is held, the caller's objects may be used. Revoking
    /// waits for the guard, so it must only be held for a moment.
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

/// A request of the working thread to publish its result; the answer is sent through
/// it.
pub type Question = mpsc::SyncSender<bool>;

/// Progress of work and its Python callback, `callable(done_bytes, total_bytes)`. The
/// callback is called periodically on the thread that waits for the work.
#[derive(Clone)]
pub struct Watch {
    counts: Arc<Counts>,
    callable: Option<Arc<Py<PyAny>>>,
    token: CancelToken,
    lease: Lease,
    /// Channel to the thread that waits for the work, while there is one.
    caller: Arc<Mutex<Option<mpsc::Sender<Question>>>>,
}

#[derive(Default)]
struct Counts {
    total_bytes: AtomicU64,
    done_bytes: AtomicU64,
    borrows: AtomicBool,
    makes_output: AtomicBool,
}

impl Watch {
    pub fn new(callable: Option<Py<PyAny>>) -> Self {
        Self {
            counts: Arc::default(),
            callable: callable.map(Arc::new),
            token: CancelToken::new(),
            lease: Lease::default(),
            caller: Arc::default(),
        }
    }

    /// Returns a watch without a callback.
    pub fn none() -> Self {
        Self::new(None)
    }

    pub fn is_watched(&self) -> bool {
        self.callable.is_some()
    }

    /// Declares that the work reads memory of the caller without a [`Lease`], so an
    /// exception is only raised once the work has ended.
    pub fn borrowing(self, borrows: bool) -> Self {
        self.counts.borrows.fetch_or(borrows, Relaxed);
        self
    }

    pub fn borrows(&self) -> bool {
        self.counts.borrows.load(Relaxed)
    }

    /// Declares that the work writes files, which are removed before an exception is
    /// raised.
    pub fn making_output(self) -> Self {
        self.counts.makes_output.store(true, Relaxed);
        self
    }

    pub fn makes_output(&self) -> bool {
        self.counts.makes_output.load(Relaxed)
    }

    /// Returns the token that stops the work.
    pub fn token(&self) -> &CancelToken {
        &self.token
    }

    /// Returns the permission to use the caller's objects.
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Sets the thread that the work asks before it publishes its result; `None` for no
    /// thread.
    pub fn set_caller(&self, caller: Option<mpsc::Sender<Question>>) {
        *self.caller.lock().unwrap_or_else(PoisonError::into_inner) = caller;
    }

    /// Makes the work stop at its next step. After this call, the work uses none of
    /// the caller's objects, except for memory that it borrows.
    pub fn stop(&self, py: Python<'_>) {
        self.token.cancel();
        // A thread that holds the lease may be waiting for the interpreter.
        py.detach(|| self.lease.revoke());
    }

    /// Calls the callback, once the total is known.
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
        self.counts.done_bytes.fetch_add(len_bytes, Relaxed);
    }

    fn phase(&self, _: Phase) {
        self.counts.total_bytes.store(0, Relaxed);
        self.counts.done_bytes.store(0, Relaxed);
    }

    fn check(&self) -> Result<()> {
        match self.token.is_cancelled() || self.lease.is_revoked() {
            true => Err(Error::Cancelled),
            false => Ok(()),
        }
    }

    /// Asks the waiting thread, which reports the progress for the last time and checks
    /// for signals.
    fn publishing(&self) -> Result<()> {
        let locked = self.caller.lock();
        let caller = locked.unwrap_or_else(PoisonError::into_inner).clone();
        let Some(caller) = caller else {
            return self.check();
        };
        let (question, answer) = mpsc::sync_channel(1);
        // The waiting thread does not answer requests of work that it has abandoned.
        match caller.send(question).is_ok() && answer.recv() == Ok(true) {
            true => Ok(()),
            false => Err(Error::Cancelled),
        }
    }
}
