//! The part of a streamed output that may still be revised.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::sync::{Mutex, PoisonError};

use super::receiver::Receiver;
use super::temporary;
use crate::report::Uploaded;
use crate::{Progress, Result};

/// Bytes that are read back at a time.
const PIECE_BYTES: usize = 1 << 20;

/// A temporary file with the bytes that are not final yet. Those before it have
/// been handed to the receiver.
pub(super) struct Pending<'a> {
    /// The file begins at this offset of the output.
    settled_bytes: u64,
    file: File,
    takes_early: bool,
    /// Whether everything waits, final or not ([`Pending::hold`]).
    is_held: bool,
    /// Used by one thread at a time; the lock is for the type system alone.
    receiver: Mutex<Receiver<'a>>,
    /// Name of the receiver in messages.
    name: String,
}

impl<'a> Pending<'a> {
    pub(super) fn new(name: String, receiver: Receiver<'a>) -> Result<Self> {
        Ok(Self {
            settled_bytes: 0,
            file: temporary::create()?,
            takes_early: receiver.takes_early(),
            is_held: false,
            receiver: Mutex::new(receiver),
            name,
        })
    }

    /// The bytes that may still be revised.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Returns the place in the file of an offset of the output.
    ///
    /// # Panics
    /// For an offset among the final bytes.
    pub(super) fn position(&self, offset_bytes: u64) -> u64 {
        let position = offset_bytes.checked_sub(self.settled_bytes);
        position.expect("final bytes are not revised")
    }

    /// Keeps all bytes in the file until [`Pending::release`], so that even those
    /// that are final can still be revised. Called before anything is written.
    pub(super) fn hold(&mut self) {
        self.is_held = true;
    }

    /// Hands over what has been kept, and what follows as it becomes final. All
    /// that has been written is final.
    pub(super) fn release(&mut self) -> Result<()> {
        self.is_held = false;
        self.settle()
    }

    /// Returns whether final bytes go to the receiver now.
    fn hands_over(&self) -> bool {
        self.takes_early && !self.is_held
    }

    /// Hands over everything that has been written, unless the receiver takes it
    /// only in the end.
    pub(super) fn settle(&mut self) -> Result<()> {
        if !self.hands_over() {
            return Ok(());
        }
        let unreadable = || temporary::failed("read");
        let metadata = self.file.metadata();
        let len_bytes = metadata.map_err(|error| unreadable()(error))?.len();
        if len_bytes == 0 {
            return Ok(());
        }
        let rewound = self.file.rewind();
        rewound.map_err(|error| unreadable()(error))?;
        let mut piece = vec![0; PIECE_BYTES.min(usize::try_from(len_bytes).unwrap_or(usize::MAX))];
        let mut left = len_bytes;
        while left > 0 {
            let len = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let read = self.file.read_exact(&mut piece[..len]);
            read.map_err(|error| unreadable()(error))?;
            self.take(&piece[..len])?;
            left -= len as u64;
        }
        let cleared = self.file.set_len(0).and_then(|()| self.file.rewind());
        cleared.map_err(|error| temporary::failed("clear")(error))?;
        self.settled_bytes += len_bytes;
        Ok(())
    }

    /// Takes bytes that are final already; they pass by the file if the receiver
    /// takes them early.
    pub(super) fn write_final(&mut self, bytes: &[u8]) -> Result<()> {
        if !self.hands_over() {
            let written = self.file.write_all(bytes);
            return written.map_err(|error| temporary::failed("write")(error));
        }
        self.settle()?;
        self.take(bytes)?;
        self.settled_bytes += bytes.len() as u64;
        Ok(())
    }

    /// Announces the greatest length of the output.
    pub(super) fn expect(&mut self, len_bytes: u64) {
        let receiver = self.receiver.get_mut();
        let receiver = receiver.unwrap_or_else(PoisonError::into_inner);
        receiver.expect(len_bytes);
    }

    /// Hands over the rest and ends the output.
    pub(super) fn complete(mut self, progress: &dyn Progress) -> Result<Option<Uploaded>> {
        self.release()?;
        let receiver = self.receiver.into_inner();
        let receiver = receiver.unwrap_or_else(PoisonError::into_inner);
        receiver.complete(&self.name, &self.file, progress)
    }

    /// Gives up; see [`Receiver::discard`].
    pub(super) fn discard(self) {
        let receiver = self.receiver.into_inner();
        receiver.unwrap_or_else(PoisonError::into_inner).discard();
    }

    fn take(&mut self, bytes: &[u8]) -> Result<()> {
        let receiver = self.receiver.get_mut();
        let receiver = receiver.unwrap_or_else(PoisonError::into_inner);
        receiver.take(bytes, &self.name)
    }
}
