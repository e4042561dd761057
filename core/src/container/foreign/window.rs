//! Walking a file from its first byte to its last while only windows of it are
//! in memory. Formats whose fields state their own lengths, but not where the
//! next tensor is, are read like this: ONNX, msgpack and tar.

use core::ops::Range;

use crate::{Error, bytes};

/// A part of a file that is in memory.
#[derive(Debug, Clone, Copy)]
pub struct Window<'a> {
    start: u64,
    bytes: &'a [u8],
    file_len_bytes: u64,
}

/// The reason why a walk stops before the end of the file.
#[derive(Debug)]
pub enum Stop {
    /// The walk continues with a window that begins at the start of this range
    /// and contains all of it.
    Needs(Range<u64>),
    /// The file is malformed.
    Refused(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// The result of reading a field that may lie outside of the window.
pub type Read<T> = Result<T, Stop>;

/// A parser that visits a file once, from front to back.
pub trait Walk {
    /// Returns the offset of the next byte to be parsed.
    fn position(&self) -> u64;

    /// Parses as much as the window allows. Returns the range to continue
    /// with, or `None` at the end of the file.
    ///
    /// # Errors
    /// The rule that the file breaks, if its list of tensors cannot be trusted.
    fn walk(&mut self, window: &Window) -> crate::Result<Option<Range<u64>>>;
}

impl<'a> Window<'a> {
    /// Creates the window of `bytes` that begin at the offset `start` of a file.
    #[must_use]
    pub fn new(start: u64, bytes: &'a [u8], file_len_bytes: u64) -> Self {
        Self {
            start,
            bytes,
            file_len_bytes,
        }
    }

    /// Returns the length of the file in bytes.
    #[must_use]
    pub fn file_len_bytes(&self) -> u64 {
        self.file_len_bytes
    }

    /// Returns whether the window contains all bytes of `range`.
    #[must_use]
    pub fn contains(&self, range: &Range<u64>) -> bool {
        let end = self.start.saturating_add(self.bytes.len() as u64);
        range.start >= self.start && range.end <= end
    }

    /// Returns the bytes of `range`, which belong to the field that begins at
    /// `at`. If the window lacks some of them, the walk has to continue at that
    /// field.
    pub fn read(&self, at: u64, range: Range<u64>) -> Read<&'a [u8]> {
        if range.start > range.end || !self.contains(&range) {
            return Err(Stop::Needs(at..range.end.max(at)));
        }
        let start = self.start;
        Ok(bytes::part(
            self.bytes,
            range.start - start..range.end - start,
        ))
    }
}
