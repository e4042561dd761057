//! Progress callbacks, which can also stop the work.

use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use zstn::{CancelToken, Error, Phase, Progress};

/// The work itself. Bytes are counted in the original data.
pub const ZSTN_PHASE_WORK: i32 = 0;
/// An input is being fetched. A total of 0 means that its length is unknown.
pub const ZSTN_PHASE_FETCH: i32 = 1;
/// A packed base is being restored before the work begins.
pub const ZSTN_PHASE_RESTORE_BASE: i32 = 2;

/// Receives the number of bytes done and the total. It is called for the last time
/// right before the output appears. A result other than 0 stops the work with
/// `ZSTN_ERROR_CANCELLED`, and no output appears. It is called from any thread, but
/// never by two at a time. It must not call the library with the engine of the work (or
/// with NULL, if the work uses the shared engine): such a call may wait forever.
pub type zstn_progress =
    Option<unsafe extern "C" fn(ctx: *mut c_void, phase: i32, done: u64, total: u64) -> i32>;

/// Connects the caller's progress callback to one run of the library.
pub struct Watch {
    callback: zstn_progress,
    ctx: *mut c_void,
    counts: Mutex<Counts>,
    /// Stops the work once the callback has requested it.
    token: CancelToken,
}

// SAFETY: the header requires that any thread may call the callback, and `counts` is
// locked around every call, so that two calls never overlap.
unsafe impl Sync for Watch {}

#[derive(Default)]
struct Counts {
    phase: i32,
    done: u64,
    total: u64,
}

impl Watch {
    /// Takes a callback of the caller, which must stay valid until the C function
    /// returns.
    pub fn new(callback: zstn_progress, ctx: *mut c_void) -> Self {
        Self {
            callback,
            ctx,
            counts: Mutex::default(),
            token: CancelToken::new(),
        }
    }

    /// Returns the token that stops the work once the callback has requested it.
    pub fn token(&self) -> &CancelToken {
        &self.token
    }

    /// Updates the counts and calls the callback, unless the work is being stopped.
    fn report(&self, change: impl FnOnce(&mut Counts) -> (i32, u64, u64)) {
        let Some(callback) = self.callback else {
            return;
        };
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let (phase, done, total) = change(&mut counts);
        if self.token.is_cancelled() {
            return;
        }
        // SAFETY: the header requires a valid callback, which receives its own context.
        if unsafe { callback(self.ctx, phase, done, total) } != 0 {
            self.token.cancel();
        }
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
        self.report(|counts| (counts.phase, counts.done, counts.total));
        match self.token.is_cancelled() {
            true => Err(Error::Cancelled),
            false => Ok(()),
        }
    }
}
