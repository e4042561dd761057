//! Hashes the original file while its tensors are coded.

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use zstn_core::container::model_delta::TargetHash;
use zstn_core::container::zstn::integrity::OriginalHash;

use super::tensor_data::Data;
use crate::buffers::Buffer;
use crate::{Error, Job, Result};

/// A hash of a file, to which the file's bytes are added in order.
pub(crate) trait FileHash: Send {
    fn update(&mut self, bytes: &[u8]);
}

impl FileHash for OriginalHash {
    fn update(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }
}

impl FileHash for TargetHash {
    fn update(&mut self, bytes: &[u8]) {
        self.update(bytes);
    }
}

/// The bytes of one tensor, which are hashed in the order of the tensors.
pub(crate) enum Piece<'a> {
    /// Bytes in memory, which are shared with the thread that codes them.
    Bytes(Arc<Buffer<'a>>),
    /// Bytes that have to be read: of an alias, or of a tensor that does not fit into
    /// memory.
    Span(Range<u64>),
}

/// The minimum length of the data, in bytes, that are hashed on a thread of their own.
/// Shorter data are hashed by the calling thread, because starting a thread takes
/// longer.
const MIN_BYTES: u64 = 4 << 20;

/// The hash of a file, to which threads supply the pieces in any order.
pub(crate) struct Hashing<'a, H> {
    sender: Sender<Option<(usize, Piece<'a>)>>,
    /// Hashes the pieces; `None` once the thread for hashing has taken it.
    chain: Mutex<Option<Chain<'a, H>>>,
    state: Mutex<ThreadState>,
    progressed: Condvar,
}

/// The state of the thread that hashes the file.
#[derive(Default)]
struct ThreadState {
    is_running: bool,
    /// The number of pieces that have been hashed.
    hashed: usize,
}

/// Runs `work` with a hash of `data`, whose length is `len_bytes`: `work` supplies all
/// pieces to it. Returns the hash of all pieces.
///
/// # Errors
/// I/O errors; [`Error::Cancelled`]; the errors of `work`.
pub(crate) fn hash_during<'a, H: FileHash>(
    job: &Job,
    data: Data<'a>,
    len_bytes: u64,
    hash: H,
    work: impl FnOnce(&Hashing<'a, H>) -> Result<()>,
) -> Result<H> {
    let (sender, pieces) = mpsc::channel();
    let chain = Chain {
        pieces,
        early: BTreeMap::new(),
        hashed: 0,
        hash,
    };
    let hashing = Hashing {
        sender,
        chain: Mutex::new(Some(chain)),
        state: Mutex::default(),
        progressed: Condvar::new(),
    };
    thread::scope(|scope| {
        let _end = EndOnDrop(&hashing);
        let mut thread = None;
        if len_bytes >= MIN_BYTES {
            let run = || hashing.run(job, data);
            hashing.state().is_running = true;
            let builder = thread::Builder::new().name("zstn-sha256".into());
            thread = builder.spawn_scoped(scope, run).ok();
            hashing.state().is_running &= thread.is_some();
        }
        let worked = work(&hashing);
        hashing.end();
        let hashed = match thread.map(thread::ScopedJoinHandle::join) {
            None => hashing.run(job, data),
            Some(Ok(hashed)) => hashed,
            Some(Err(payload)) => resume_unwind(payload),
        };
        // If hashing has failed, `work` may have ended with `Cancelled`; the error of
        // hashing is then the reason.
        match (worked, hashed) {
            (Ok(()), hashed) => hashed,
            (Err(Error::Cancelled), Err(error)) | (Err(error), _) => Err(error),
        }
    })
}

impl<'a, H: FileHash> Hashing<'a, H> {
    /// Supplies piece `number`.
    pub(crate) fn supply(&self, number: usize, piece: Piece<'a>) {
        // After an error, the receiver no longer exists.
        let _ = self.sender.send(Some((number, piece)));
    }

    /// Waits until piece `number` has been hashed. It and all pieces before it must have
    /// been supplied.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if hashing has failed; [`hash_during`] returns the reason.
    pub(crate) fn wait_for(&self, job: &Job, data: Data<'a>, number: usize) -> Result<()> {
        let mut state = self.state();
        while state.is_running && state.hashed <= number {
            let waited = self.progressed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        if state.hashed > number {
            return Ok(());
        }
        drop(state);
        match &mut *self.chain() {
            Some(chain) => chain.hash_until(job, data, number),
            None => Err(Error::Cancelled),
        }
    }

    /// Hashes the pieces that are supplied until [`Hashing::end`].
    fn run(&self, job: &Job, data: Data<'a>) -> Result<H> {
        let _stop = StopOnDrop(self);
        let chain = self.chain().take();
        let mut chain = chain.ok_or(Error::Cancelled)?;
        while let Ok(Some((number, piece))) = chain.pieces.recv() {
            chain.take(job, data, number, piece)?;
            self.state().hashed = chain.hashed;
            self.progressed.notify_all();
        }
        Ok(chain.hash)
    }

    /// Signals that no more pieces will be supplied.
    fn end(&self) {
        let _ = self.sender.send(None);
    }

    fn chain(&self) -> MutexGuard<'_, Option<Chain<'a, H>>> {
        self.chain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> MutexGuard<'_, ThreadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// When it is dropped, ends the thread that hashes, even if the work that supplies the
/// pieces unwinds.
struct EndOnDrop<'h, 'a, H: FileHash>(&'h Hashing<'a, H>);

impl<H: FileHash> Drop for EndOnDrop<'_, '_, H> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// When the hashing ends, marks it as ended and wakes the threads that wait for it.
struct StopOnDrop<'h, 'a, H: FileHash>(&'h Hashing<'a, H>);

impl<H: FileHash> Drop for StopOnDrop<'_, '_, H> {
    fn drop(&mut self) {
        self.0.state().is_running = false;
        self.0.progressed.notify_all();
    }
}

/// The hash of consecutive pieces, and the pieces that have not been hashed.
struct Chain<'a, H> {
    pieces: Receiver<Option<(usize, Piece<'a>)>>,
    /// Pieces that arrived before their predecessors.
    early: BTreeMap<usize, Piece<'a>>,
    hashed: usize,
    hash: H,
}

impl<'a, H: FileHash> Chain<'a, H> {
    /// Hashes pieces that have been supplied, up to and including piece `number`.
    fn hash_until(&mut self, job: &Job, data: Data<'a>, number: usize) -> Result<()> {
        while self.hashed <= number {
            match self.pieces.try_recv() {
                Ok(Some((number, piece))) => self.take(job, data, number, piece)?,
                _ => return Err(Error::Cancelled),
            }
        }
        Ok(())
    }

    /// Takes a piece, and hashes all pieces whose turn it is.
    fn take(&mut self, job: &Job, data: Data<'a>, number: usize, piece: Piece<'a>) -> Result<()> {
        self.early.insert(number, piece);
        while let Some(piece) = self.early.remove(&self.hashed) {
            let hash = &mut self.hash;
            match piece {
                Piece::Bytes(bytes) => job.feed_bytes(&bytes, |piece| hash.update(piece))?,
                Piece::Span(span) => data.feed(&span, &mut |piece| hash.update(piece))?,
            }
            self.hashed += 1;
        }
        Ok(())
    }
}
