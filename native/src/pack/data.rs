//! The data of the file that is being packed, by the spans of its tensors.

use std::borrow::Cow;
use std::ops::Range;

use zstn_core::digest::{self, Digest};

use crate::Result;
use crate::source::{Arriving, Local, Source};

/// A file and the offset in it from which spans count.
#[derive(Clone, Copy)]
pub(crate) struct Data<'a> {
    pub(super) input: &'a Local,
    pub(super) start: u64,
    /// Fetches the file, if it is not there yet.
    arriving: Option<&'a Arriving>,
}

impl<'a> Data<'a> {
    /// Data that begin at `start` of `input`.
    pub(crate) fn new(input: &'a Local, start: u64) -> Self {
        Self {
            input,
            start,
            arriving: None,
        }
    }

    /// Has the file, which is that of `arriving`, fetched as it is needed.
    pub(super) fn arriving(mut self, arriving: Option<&'a Arriving>) -> Self {
        self.arriving = arriving;
        self
    }

    /// Returns whether parts of it have to be fetched, and are gone after use.
    pub(super) fn is_arriving(&self) -> bool {
        self.arriving.is_some()
    }

    /// Returns the range of a span in the file.
    pub(super) fn range(&self, span: &Range<u64>) -> Range<u64> {
        self.start.saturating_add(span.start)..self.start.saturating_add(span.end)
    }

    /// Returns the bytes of a span.
    pub(super) fn read(&self, span: &Range<u64>) -> Result<Cow<'a, [u8]>> {
        self.input.read(self.range(span))
    }

    /// Passes the bytes of a span to `sink`, a small part of them at a time.
    pub(super) fn feed(&self, span: &Range<u64>, sink: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.input.feed(self.range(span), sink)
    }

    /// Returns the digest of a span of any length.
    pub(super) fn digest(&self, span: &Range<u64>) -> Result<Digest> {
        digest::of_fed(|sink| self.feed(span, sink))
    }

    /// Has the system read a span that is needed soon.
    pub(super) fn will_need(&self, span: &Range<u64>) {
        if !self.is_arriving() {
            self.input.will_need(self.range(span));
        }
    }

    /// Waits until the data are there up to `end`, in bytes.
    pub(super) fn fetch_until(&self, end: u64) -> Result<()> {
        let end = self.start.saturating_add(end);
        self.arriving.map_or(Ok(()), |file| file.fetch_until(end))
    }

    /// Gives back the disk space of the data before `end`, in bytes, if they are
    /// there for this work alone.
    pub(super) fn free_until(&self, end: u64) {
        if let Some(file) = self.arriving {
            file.free_until(self.start.saturating_add(end));
        }
    }

    /// Makes sure that the file ends where it should.
    pub(super) fn check_end(&self) -> Result<()> {
        self.arriving.map_or(Ok(()), Arriving::check_end)
    }
}
