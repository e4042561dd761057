//! Reads the data of the file that is being packed, by the spans of its tensors.

use std::borrow::Cow;
use std::ops::Range;

use zstn_core::digest::{self, Digest};

use crate::source::{Arriving, Local, Source};
use crate::{Job, Result};

/// A file, with the offset at which its tensor data begin. Spans are relative to that
/// offset.
#[derive(Clone, Copy)]
pub(crate) struct Data<'a> {
    job: &'a Job<'a>,
    pub(crate) input: &'a Local,
    pub(crate) start: u64,
    /// The file, if it is still arriving. Its tensors are then read through
    /// [`Arrivals`](super::arrivals::Arrivals).
    pub(super) arriving: Option<&'a Arriving>,
}

impl<'a> Data<'a> {
    /// Returns the data that begin at the offset `start` of `input`.
    pub(crate) fn new(job: &'a Job<'a>, input: &'a Local, start: u64) -> Self {
        Self {
            job,
            input,
            start,
            arriving: None,
        }
    }

    /// Uses the data while they arrive from `arriving`, which must be the same file.
    pub(crate) fn arriving(mut self, arriving: Option<&'a Arriving>) -> Self {
        self.arriving = arriving;
        self
    }

    /// Returns the range of a span in the file.
    pub(crate) fn range(&self, span: &Range<u64>) -> Range<u64> {
        self.start.saturating_add(span.start)..self.start.saturating_add(span.end)
    }

    /// Returns the bytes of a span.
    pub(crate) fn read(&self, span: &Range<u64>) -> Result<Cow<'a, [u8]>> {
        self.input.read(self.range(span))
    }

    /// Passes the bytes of a span to `sink` in small pieces.
    pub(crate) fn feed(&self, span: &Range<u64>, sink: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.job.feed(self.input, self.range(span), &mut |piece| {
            sink(piece);
            Ok(())
        })
    }

    /// Passes the bytes of a span to `sink` in small pieces; an error of `sink` ends the
    /// work.
    pub(crate) fn try_feed(
        &self,
        span: &Range<u64>,
        sink: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        self.job.feed(self.input, self.range(span), sink)
    }

    /// Returns the digest of a span of any length, computed on all threads.
    pub(crate) fn digest(&self, span: &Range<u64>) -> Result<Digest> {
        let all = self.range(span);
        digest::of_ranges(&self.job.engine, all.end - all.start, |part| {
            self.input
                .read(all.start + part.start..all.start + part.end)
        })
    }

    /// Asks the system to load a span that will be read soon.
    pub(super) fn will_need(&self, span: &Range<u64>) {
        self.input.will_need(self.range(span));
    }

    /// Makes all data readable, if none of them have been taken from a file that is
    /// still arriving.
    pub(super) fn store_all(&self) -> Result<()> {
        let len_bytes = self.input.len_bytes() - self.start;
        let check = || self.job.ensure_running();
        self.arriving
            .map_or(Ok(()), |file| file.store(len_bytes, &check))
    }

    /// Checks that the file ends at its expected length.
    pub(super) fn check_end(&self) -> Result<()> {
        self.arriving.map_or(Ok(()), Arriving::check_end)
    }
}
