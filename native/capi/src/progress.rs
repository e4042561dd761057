//! Progress callbacks, which can also end the work.

use std::ffi::c_void;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use zstn::{Phase, Progress};

use crate::status::Failure;

/// The work that was asked for; its bytes are those of the original.
pub const ZSTN_PHASE_WORK: i32 = 0;
/// An input is fetched; a total of 0 means that its length is not known.
pub const ZSTN_PHASE_FETCH: i32 = 1;
/// A packed base is restored first.
pub const ZSTN_PHASE_RESTORE_BASE: i32 = 2;

/// Called with the bytes that are done, out of a total, the last time right before
/// the output appears. A result other than 0 ends the work with
/// `ZSTN_ERROR_CANCELLED`: nothing appears then. Calls come from any thread, but
/// never two at a time. It must not call the library with the engine of the work,
/// nor with NULL if that is the shared one: such a call may wait forever.
pub type zstn_progress =
    Option<unsafe extern "C" fn(ctx: *mut c_void, phase: i32, done: u64, total: u64) -> i32>;

/// Carries the wish to end out of the work.
struct Cancelled;

/// Work that a callback watches.
pub struct Watch {
    callback: zstn_progress,
    ctx: *mut c_void,
    counts: Mutex<Counts>,
    is_cancelled: AtomicBool,
}

// SAFETY: the header says that the callback may be called by any thread; the
// lock sees to it that two do not do so at a time.
unsafe impl Sync for Watch {}

#[derive(Default)]
struct Counts {
    phase: i32,
    done: u64,
    total: u64,
}

impl Watch {
    /// Takes a callback of the caller, which is valid during the call.
    pub fn new(callback: zstn_progress, ctx: *mut c_void) -> Self {
        Self {
            callback,
            ctx,
            counts: Mutex::default(),
            is_cancelled: AtomicBool::new(false),
        }
    }

    /// Runs `work`, which calls this as its [`Progress`].
    pub fn run<T>(&self, work: impl FnOnce() -> zstn::Result<T>) -> Result<T, Failure> {
        match panic::catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(result)) => Ok(result),
            _ if self.is_cancelled.load(Relaxed) => Err(Failure::cancelled()),
            Ok(Err(error)) => Err(error.into()),
            Err(payload) => panic::resume_unwind(payload),
        }
    }

    /// Changes the counts, calls the callback, and stops the work if the callback requests it.
    fn report(&self, change: impl FnOnce(&mut Counts) -> (i32, u64, u64)) {
        if !self.goes_on(change) {
            // The library has no other way to stop from inside. Outputs are removed
            // as their owners are dropped.
            panic::resume_unwind(Box::new(Cancelled));
        }
    }

    /// Changes the counts and calls the callback; returns whether the work continues.
    fn goes_on(&self, change: impl FnOnce(&mut Counts) -> (i32, u64, u64)) -> bool {
        let Some(callback) = self.callback else {
            return true;
        };
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let (phase, done, total) = change(&mut counts);
        if !self.is_cancelled.load(Relaxed) {
            // SAFETY: a callback of the caller with its context.
            if unsafe { callback(self.ctx, phase, done, total) } == 0 {
                return true;
            }
            self.is_cancelled.store(true, Relaxed);
        }
        false
    }
}

impl Progress for Watch {
    fn begin(&self, len_bytes: u64) {
        self.report(|counts| {
            counts.total = len_bytes;
            (counts.phase, counts.done, counts.total)
        });
    }

    fn advance(&self, len_bytes: u64) {
        self.report(|counts| {
            counts.done = counts.done.saturating_add(len_bytes);
            (counts.phase, counts.done, counts.total)
        });
    }

    fn fetching(&self, so_far_bytes: u64, len_bytes: Option<u64>) {
        self.report(|_| (ZSTN_PHASE_FETCH, so_far_bytes, len_bytes.unwrap_or(0)));
    }

    fn phase(&self, phase: Phase) {
        self.report(|counts| {
            *counts = Counts {
                phase: match phase {
                    Phase::RestoreBase => ZSTN_PHASE_RESTORE_BASE,
                    _ => ZSTN_PHASE_WORK,
                },
                ..Counts::default()
            };
            (counts.phase, 0, 0)
        });
    }

    fn check(&self) -> zstn::Result<()> {
        match self.goes_on(|counts| (counts.phase, counts.done, counts.total)) {
            true => Ok(()),
            false => Err(zstn::Error::Cancelled),
        }
    }
}
