//! Fetches the tensors of a file that arrives on a thread of its own, ahead of the work
//! on them and in bounded memory.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use zstn_core::digest::{self, Digest};

use crate::buffers::Buffer;
use crate::source::Arriving;
use crate::{Error, Job, Result};

/// The minimum length of the data, in bytes, for which a thread is started. Starting a
/// thread takes longer than receiving shorter data.
const MIN_BYTES: u64 = 4 << 20;

/// The interval between two checks whether the job has been cancelled.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// A tensor that will arrive.
pub(super) struct Expected {
    pub(super) len_bytes: u64,
    /// True if the tensor does not fit into memory, so that it is copied to the disk.
    pub(super) is_large: bool,
    /// True if the digest is needed, because another tensor may have the same bytes.
    pub(super) has_digest: bool,
}

/// A tensor that has arrived.
pub(super) enum Arrived {
    /// The bytes, and the digest if it is needed.
    Bytes(Arc<Buffer<'static>>, Option<Digest>),
    /// The input can be read where the tensor is, until [`Arrivals::release`].
    Stored,
}

/// The tensors of a file that arrives, in their order.
pub(super) struct Arrivals<'a> {
    job: &'a Job<'a>,
    arriving: &'a Arriving,
    tensors: Vec<Expected>,
    max_bytes: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Tensors that have arrived and have not been taken, or the error instead of one.
    arrived: VecDeque<Result<Arrived>>,
    /// The length of all tensors in memory that have not been released.
    held_bytes: u64,
    /// The number of tensors that have been taken or that [`Arrivals::take`] waits for.
    wanted: usize,
    /// True while a thread fetches tensors.
    is_running: bool,
    /// True once no more tensors will be taken.
    is_ended: bool,
}

impl<'a> Arrivals<'a> {
    /// Expects `tensors`. Tensors are fetched ahead while all tensors in memory take at
    /// most `max_bytes`; a tensor that is taken is fetched in any case.
    pub(super) fn new(
        job: &'a Job<'a>,
        arriving: &'a Arriving,
        tensors: Vec<Expected>,
        max_bytes: u64,
    ) -> Self {
        Self {
            job,
            arriving,
            tensors,
            max_bytes,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Fetches tensors while `work` takes and releases them.
    ///
    /// # Errors
    /// The errors of `work`.
    pub(super) fn fetch_during(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let len_bytes: u64 = self.tensors.iter().map(|tensor| tensor.len_bytes).sum();
        if len_bytes < MIN_BYTES {
            return work();
        }
        thread::scope(|scope| {
            let _end = EndOnDrop(self);
            self.state().is_running = true;
            let builder = thread::Builder::new().name("zstn-fetch".into());
            let thread = builder.spawn_scoped(scope, || self.run()).ok();
            // If the system refuses a thread, the tensors are fetched when they are taken.
            self.state().is_running &= thread.is_some();
            let worked = work();
            self.end();
            match thread.map(ScopedJoinHandle::join) {
                Some(Err(payload)) => resume_unwind(payload),
                _ => worked,
            }
        })
    }

    /// Waits for tensor `number`; all tensors before it must have been taken.
    ///
    /// # Errors
    /// The errors of the source; [`Error::Cancelled`].
    pub(super) fn take(&self, number: usize) -> Result<Arrived> {
        let mut state = self.state();
        state.wanted = number + 1;
        self.changed.notify_all();
        loop {
            if let Some(arrived) = state.arrived.pop_front() {
                return arrived;
            }
            if !state.is_running {
                state.held_bytes += self.memory_bytes(number);
                drop(state);
                return self.fetch(number);
            }
            self.job.ensure_running()?;
            let waited = self.changed.wait_timeout(state, CHECK_EVERY);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Releases tensor `number`, which is no longer needed.
    pub(super) fn release(&self, number: usize) {
        if self.tensors[number].is_large {
            self.arriving.discard();
        }
        self.state().held_bytes -= self.memory_bytes(number);
        self.changed.notify_all();
    }

    /// Fetches all tensors, in the thread for this.
    fn run(&self) {
        let _stop = StopOnDrop(self);
        for number in 0..self.tensors.len() {
            if !self.wait_for_room(number) {
                return;
            }
            let arrived = self.fetch(number);
            let has_failed = arrived.is_err();
            self.state().arrived.push_back(arrived);
            self.changed.notify_all();
            if has_failed {
                return;
            }
        }
    }

    /// Waits until tensor `number` may be fetched, and counts its memory. Returns
    /// `false` if it is not needed any more.
    fn wait_for_room(&self, number: usize) -> bool {
        let tensor = &self.tensors[number];
        let mut state = self.state();
        loop {
            if state.is_ended {
                return false;
            }
            let fits = state.held_bytes.saturating_add(tensor.len_bytes) <= self.max_bytes;
            if state.wanted > number || (fits && !tensor.is_large) {
                state.held_bytes += self.memory_bytes(number);
                return true;
            }
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Fetches tensor `number`, which must be the next one.
    fn fetch(&self, number: usize) -> Result<Arrived> {
        let tensor = &self.tensors[number];
        let check = || match self.state().is_ended {
            true => Err(Error::Cancelled),
            false => self.job.ensure_running(),
        };
        if tensor.is_large {
            self.arriving.store(tensor.len_bytes, &check)?;
            return Ok(Arrived::Stored);
        }
        let mut bytes = self.job.buffers.take(tensor.len_bytes)?;
        let mut end = 0;
        self.arriving.take(tensor.len_bytes, &mut |piece| {
            check()?;
            let start = end;
            end += piece.len();
            bytes[start..end].copy_from_slice(piece);
            Ok(())
        })?;
        // The threads of the engine are busy with earlier tensors.
        let digest = tensor.has_digest.then(|| digest::of_pieces([&bytes[..]]));
        Ok(Arrived::Bytes(Arc::new(bytes), digest))
    }

    /// Returns the number of bytes of tensor `number` in memory.
    fn memory_bytes(&self, number: usize) -> u64 {
        let tensor = &self.tensors[number];
        if tensor.is_large { 0 } else { tensor.len_bytes }
    }

    /// Ends the fetching.
    fn end(&self) {
        self.state().is_ended = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When it is dropped, ends the fetching, even if the work unwinds.
struct EndOnDrop<'s, 'a>(&'s Arrivals<'a>);

impl Drop for EndOnDrop<'_, '_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// When the thread ends, wakes the thread that waits for it.
struct StopOnDrop<'s, 'a>(&'s Arrivals<'a>);

impl Drop for StopOnDrop<'_, '_> {
    fn drop(&mut self) {
        self.0.state().is_running = false;
        self.0.changed.notify_all();
    }
}
