//! The data of the file that is being packed, by the spans of its tensors.

use std::ops::Range;

use zstn_core::TensorRef;
use zstn_core::bytes::index;
use zstn_core::container::safetensors::Tensor;
use zstn_core::digest::{self, Digest};

use crate::Result;
use crate::source::{Arriving, Map};

/// The least length, in bytes, of tensors or runs of them whose pages are
/// released as soon as they have been read: for small ones the system call
/// costs more time than their memory is worth.
const MIN_RELEASED_BYTES: u64 = 1 << 20;

/// A file and the offset in it from which spans count.
#[derive(Clone, Copy)]
pub(crate) struct Data<'a> {
    pub(super) map: &'a Map,
    pub(super) start: usize,
    /// Fetches the file, if it is not there yet.
    arriving: Option<&'a Arriving>,
}

impl<'a> Data<'a> {
    /// Data that begin at `start` of `map`.
    pub(crate) fn new(map: &'a Map, start: usize) -> Self {
        Self {
            map,
            start,
            arriving: None,
        }
    }

    /// Has the file, whose map this is, fetched as it is needed.
    pub(super) fn arriving(mut self, arriving: Option<&'a Arriving>) -> Self {
        self.arriving = arriving;
        self
    }

    /// Returns whether parts of it have to be fetched, and are gone after use.
    pub(super) fn is_arriving(&self) -> bool {
        self.arriving.is_some()
    }

    /// Returns the range of a span in the file.
    pub(super) fn range(&self, span: &Range<u64>) -> Range<usize> {
        self.start + index(span.start)..self.start + index(span.end)
    }

    pub(super) fn bytes(&self, span: &Range<u64>) -> &'a [u8] {
        &self.map[self.range(span)]
    }

    pub(super) fn tensor<'t>(&self, tensor: &'t Tensor) -> TensorRef<'t>
    where
        'a: 't,
    {
        TensorRef::new(self.bytes(&tensor.span), tensor.dtype, &tensor.shape)
    }

    /// Returns the bytes of a span a few MiB at a time; they are released.
    pub(super) fn pieces(&self, span: &Range<u64>) -> impl Iterator<Item = &'a [u8]> {
        self.map.pieces(self.range(span))
    }

    /// Returns the digest of a span, which is released.
    pub(super) fn digest(&self, span: &Range<u64>) -> Digest {
        digest::of_pieces(self.pieces(span))
    }

    /// Releases the memory of a span.
    pub(super) fn release(&self, span: &Range<u64>) {
        self.map.release(self.range(span));
    }

    /// Releases the memory of a span if it is worth it; returns whether it was.
    pub(super) fn release_if_long(&self, span: &Range<u64>) -> bool {
        let is_long = span.end.saturating_sub(span.start) >= MIN_RELEASED_BYTES;
        if is_long {
            self.release(span);
        }
        is_long
    }

    /// Waits until the data are there up to `end`, in bytes.
    pub(super) fn fetch_until(&self, end: u64) -> Result<()> {
        let end = (self.start as u64).saturating_add(end);
        self.arriving.map_or(Ok(()), |file| file.fetch_until(end))
    }

    /// Gives back the disk space of the data before `end`, in bytes, if they are
    /// there for this work alone.
    pub(super) fn free_until(&self, end: u64) {
        if let Some(file) = self.arriving {
            file.free_until((self.start as u64).saturating_add(end));
        }
    }

    /// Makes sure that the file ends where it should.
    pub(super) fn check_end(&self) -> Result<()> {
        self.arriving.map_or(Ok(()), Arriving::check_end)
    }
}
