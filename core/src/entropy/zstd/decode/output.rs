//! The output buffer of a frame, and copies within it.

use super::Fault;

/// The decoded bytes of a frame, which are filled from the start.
pub struct Output<'a> {
    bytes: &'a mut [u8],
    /// Number of bytes filled so far.
    pub done: usize,
}

impl<'a> Output<'a> {
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, done: 0 }
    }

    /// Returns whether every byte has been filled.
    pub fn is_full(&self) -> bool {
        self.done == self.bytes.len()
    }

    /// Claims the next `len` bytes, for the caller to fill.
    #[inline]
    pub fn claim(&mut self, len: usize) -> Result<&mut [u8], Fault> {
        let (_, free) = self.bytes.split_at_mut(self.done);
        let claimed = free.get_mut(..len).ok_or(FULL)?;
        self.done += len;
        Ok(claimed)
    }

    /// Fills the next `len` bytes with a copy of the bytes that begin `offset`
    /// bytes back. If the copy overlaps its own output, those bytes repeat.
    #[inline]
    pub fn repeat(&mut self, offset: usize, len: usize) -> Result<(), Fault> {
        let from = self.done.checked_sub(offset).filter(|_| offset > 0);
        let from = from.ok_or(Fault("a match begins before the frame"))?;
        let end = self.done + len;
        if end > self.bytes.len() {
            return Err(FULL);
        }
        while self.done < end {
            // Each copy can be twice as long as the previous one, because it
            // can copy the bytes already written.
            let piece = (self.done - from).min(end - self.done);
            self.bytes.copy_within(from..from + piece, self.done);
            self.done += piece;
        }
        Ok(())
    }
}

const FULL: Fault = Fault("it decodes to more bytes than expected");
