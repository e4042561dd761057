//! The byte ranges of a file that have been fetched while it is being opened.

use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ops::Range;

use crate::{Error, Result, bytes};

/// A head, a tail, and an optional window between them. The head grows at its
/// end, the tail at its beginning.
#[derive(Debug, Clone)]
pub(super) struct FetchedRanges {
    len_bytes: u64,
    /// The first bytes of the file.
    head: Vec<u8>,
    /// The last bytes of the file.
    tail: Vec<u8>,
    window: Window,
}

#[derive(Debug, Clone, Default)]
struct Window {
    start: u64,
    bytes: Vec<u8>,
}

impl FetchedRanges {
    pub(super) fn new(len_bytes: u64, head: Vec<u8>) -> Self {
        Self {
            len_bytes,
            head,
            tail: Vec::new(),
            window: Window::default(),
        }
    }

    /// Returns the length of the whole file.
    pub(super) fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Returns the offset at which the tail begins.
    pub(super) fn tail_start(&self) -> u64 {
        self.len_bytes - self.tail.len() as u64
    }

    /// Returns the offset from which everything up to the end of the file has
    /// been fetched.
    pub(super) fn tail_from(&self) -> u64 {
        match self.tail_start() {
            start if start <= self.head.len() as u64 => 0,
            start => start,
        }
    }

    /// Returns the range between the head and `end`, or `None` if the head
    /// reaches `end`.
    pub(super) fn missing_head(&self, end: u64) -> Option<Range<u64>> {
        let have = self.head.len() as u64;
        (have < end).then_some(have..end)
    }

    /// Appends bytes to the head or prepends them to the tail, whichever they
    /// touch.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if they touch neither.
    pub(super) fn supply(&mut self, offset_bytes: u64, bytes: &[u8]) -> Result<()> {
        if offset_bytes == self.head.len() as u64 {
            self.head.extend_from_slice(bytes);
        } else if offset_bytes.checked_add(bytes.len() as u64) == Some(self.tail_start()) {
            let mut tail = bytes.to_vec();
            tail.append(&mut self.tail);
            self.tail = tail;
        } else {
            return Err(Error::invalid_input("these bytes were not requested"));
        }
        Ok(())
    }

    /// Replaces the window with these bytes.
    #[cfg(any(feature = "deltas", feature = "ztensor"))]
    pub(super) fn supply_window(&mut self, start: u64, bytes: &[u8]) {
        self.window = Window {
            start,
            bytes: bytes.to_vec(),
        };
    }

    /// Returns the bytes of `range`, or `None` if some of them have not been
    /// fetched.
    pub(super) fn part(&self, range: Range<u64>) -> Option<Cow<'_, [u8]>> {
        let head_end = self.head.len() as u64;
        let tail_start = self.tail_start();
        if range.end <= head_end {
            return Some(bytes::part(&self.head, range).into());
        }
        let Window { start, bytes } = &self.window;
        if range.start >= *start && range.end <= start + bytes.len() as u64 {
            return Some(bytes::part(bytes, range.start - start..range.end - start).into());
        }
        let from_tail =
            |start: u64| bytes::part(&self.tail, start - tail_start..range.end - tail_start);
        if range.start >= tail_start {
            return Some(from_tail(range.start).into());
        }
        if head_end < tail_start {
            return None;
        }
        let mut joined = bytes::part(&self.head, range.start..head_end).to_vec();
        joined.extend_from_slice(from_tail(head_end));
        Some(joined.into())
    }

    /// Returns the bytes of `range`, which the caller knows to have been
    /// fetched; empty if they have not.
    pub(super) fn have(&self, range: Range<u64>) -> Cow<'_, [u8]> {
        self.part(range).unwrap_or_default()
    }
}
