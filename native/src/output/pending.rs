//! The bytes of a streamed output that may still be revised.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::sync::{Mutex, PoisonError};

use super::receiver::Receiver;
use super::temporary;
use crate::report::Uploaded;
use crate::{Progress, Result};

/// The number of bytes that are read back at a time.
const PIECE_BYTES: usize = 1 << 20;

/// A temporary file with the bytes that are not final yet. Earlier bytes have been
/// passed to the receiver.
pub(super) struct Pending<'a> {
    /// The offset of the file's first byte in the output.
    settled_bytes: u64,
    file: File,
    takes_early: bool,
    /// True while all bytes wait in the file, even final ones ([`Pending::hold`]).
    is_held: bool,
    /// All access is exclusive; the lock only makes the type `Sync`.
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

    /// Returns the file with the bytes that may still be revised.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Returns the position in the file of an offset in the output.
    ///
    /// # Panics
    /// Panics if the offset is among the final bytes.
    pub(super) fn position(&self, offset_bytes: u64) -> u64 {
        let position = offset_bytes.checked_sub(self.settled_bytes);
        position.expect("final bytes are not revised")
    }

    /// Keeps all bytes in the file until [`Pending::release`], so that even final ones
    /// can be revised. Must be called before anything is written.
    pub(super) fn hold(&mut self) {
        self.is_held = true;
    }

    /// Makes all written bytes final and passes them to the receiver. Later bytes are
    /// passed on as they become final.
    pub(super) fn release(&mut self) -> Result<()> {
        self.is_held = false;
        self.settle()
    }

    /// Returns whether final bytes are passed to the receiver immediately.
    fn hands_over(&self) -> bool {
        self.takes_early && !self.is_held
    }

    /// Passes all written bytes to the receiver, unless it takes them only when the
    /// output is complete.
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

    /// Writes bytes that are already final. They bypass the file if the receiver takes
    /// bytes early.
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

    /// Passes the remaining bytes to the receiver and ends the output.
    pub(super) fn complete(mut self, progress: &dyn Progress) -> Result<Option<Uploaded>> {
        self.release()?;
        let receiver = self.receiver.into_inner();
        let receiver = receiver.unwrap_or_else(PoisonError::into_inner);
        receiver.complete(&self.name, &self.file, progress)
    }

    /// Abandons the output; see [`Receiver::discard`].
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
