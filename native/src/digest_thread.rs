//! Adds consecutive pieces to a digest on a thread of its own, while the calling thread does
//! other work with them.

use std::panic::resume_unwind;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope, ScopedJoinHandle};

use crate::buffers::Buffer;
use crate::{Error, Job, Result};

/// A digest, or several, to which bytes are added in order.
pub(crate) trait Digests: Send {
    fn update(&mut self, bytes: &[u8]);
}

/// The minimum length of the data, in bytes, for which a thread is started. Starting a
/// thread takes longer than hashing shorter data.
const MIN_BYTES: u64 = 4 << 20;

/// The maximum length, in bytes, of pieces that the thread may still hold after
/// [`DigestThread::settle`].
const MAX_HELD_BYTES: usize = 8 << 20;

/// A thread that hashes pieces in the order in which they are added. For short data, the
/// calling thread hashes them.
pub(crate) enum DigestThread<'s, D> {
    Own(D),
    Other {
        sender: Sender<Arc<Buffer<'s>>>,
        flow: Arc<Flow>,
        thread: ScopedJoinHandle<'s, Result<D>>,
    },
}

/// The pieces that have been added and not been hashed.
pub(crate) struct Flow {
    state: Mutex<State>,
    progressed: Condvar,
}

struct State {
    held_bytes: usize,
    is_running: bool,
}

impl<'s, D: Digests> DigestThread<'s, D> {
    /// Begins to hash data of `len_bytes` bytes into `digests`.
    pub(crate) fn begin<'e>(
        scope: &'s Scope<'s, 'e>,
        job: &'s Job<'s>,
        len_bytes: u64,
        digests: D,
    ) -> Self
    where
        D: 's,
    {
        if len_bytes < MIN_BYTES {
            return Self::Own(digests);
        }
        let (sender, pieces) = mpsc::channel();
        let state = State {
            held_bytes: 0,
            is_running: true,
        };
        let flow = Arc::new(Flow {
            state: Mutex::new(state),
            progressed: Condvar::new(),
        });
        // If the system refuses a thread, the digests are still needed.
        let digests = Arc::new(Mutex::new(Some(digests)));
        let taken = (Arc::clone(&flow), Arc::clone(&digests));
        let run = move || {
            let (flow, digests) = taken;
            let digests = lock(&digests).take();
            digests.map_or(Err(Error::Cancelled), |digests| {
                flow.hash(job, &pieces, digests)
            })
        };
        let builder = thread::Builder::new().name("zstn-digest".into());
        match builder.spawn_scoped(scope, run) {
            Ok(thread) => Self::Other {
                sender,
                flow,
                thread,
            },
            Err(_) => {
                let digests = lock(&digests).take();
                Self::Own(digests.expect("a thread that does not exist takes nothing"))
            }
        }
    }

    /// Hashes the next bytes of the data, or queues them for the thread.
    ///
    /// # Errors
    /// [`Error::Cancelled`].
    pub(crate) fn add(&mut self, job: &Job, piece: &Arc<Buffer<'s>>) -> Result<()> {
        match self {
            Self::Own(digests) => job.feed_bytes(piece, |bytes| digests.update(bytes)),
            Self::Other { sender, flow, .. } => {
                flow.state().held_bytes += piece.len();
                // After an error, the receiver no longer exists.
                sender.send(Arc::clone(piece)).map_err(|_| Error::Cancelled)
            }
        }
    }

    /// Waits until nearly all pieces have been hashed, so that they take little memory.
    pub(crate) fn settle(&self) {
        if let Self::Other { flow, .. } = self {
            let mut state = flow.state();
            while state.is_running && state.held_bytes > MAX_HELD_BYTES {
                let waited = flow.progressed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Waits until all pieces have been hashed, and returns the digests.
    ///
    /// # Errors
    /// [`Error::Cancelled`].
    pub(crate) fn finish(self) -> Result<D> {
        match self {
            Self::Own(digests) => Ok(digests),
            Self::Other { sender, thread, .. } => {
                drop(sender);
                thread
                    .join()
                    .unwrap_or_else(|payload| resume_unwind(payload))
            }
        }
    }
}

impl Flow {
    fn hash<D: Digests>(
        &self,
        job: &Job,
        pieces: &Receiver<Arc<Buffer<'_>>>,
        mut digests: D,
    ) -> Result<D> {
        let _end = EndOnDrop(self);
        while let Ok(piece) = pieces.recv() {
            job.feed_bytes(&piece, |bytes| digests.update(bytes))?;
            let len = piece.len();
            drop(piece);
            self.state().held_bytes -= len;
            self.progressed.notify_all();
        }
        Ok(digests)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// When the hashing ends, even by a panic, wakes the thread that waits for it.
struct EndOnDrop<'a>(&'a Flow);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.state().is_running = false;
        self.0.progressed.notify_all();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
