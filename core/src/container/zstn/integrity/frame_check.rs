//! The checks of a frame and of the tensor decoded from it, against its
//! checksum, its digest, its statistics and its block table. Unpacking and
//! verifying make the same checks, so that they accept the same files.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use super::Integrity;
use crate::container::safetensors::Header;
use crate::container::zstn::rows::FrameTable;
use crate::container::zstn::{ContainerIndex, ContainerPrefix, ContainerTail};
use crate::dtype::Dtype;
use crate::engine::Engine;
use crate::frame::{ContainedFrame, Edition};
use crate::statistics::{Figures, Statistics};
use crate::{Error, Result, Rule, TensorRef};

/// A frame whose fields are consistent. If the file has checksums and digests,
/// decoding compares the checksum of the frame and, depending on
/// [`Verify`](super::Verify), the digest of the tensor
/// (docs/formats/zstn-integrity.md 4). Offsets in errors are relative to the
/// start of the frame.
#[derive(Debug, Clone)]
pub struct CheckedFrame<'a> {
    bytes: &'a [u8],
    stored: ContainedFrame<'a>,
    expected: Option<(&'a Integrity, usize)>,
}

impl<'a> CheckedFrame<'a> {
    /// Parses the frame `bytes` of a tensor of `len_bytes` in a file of this
    /// `edition`. `expected` contains the file's integrity section, if it has
    /// one, and the number of the tensor's record.
    pub fn parse(
        bytes: &'a [u8],
        len_bytes: u64,
        edition: Edition,
        expected: Option<(&'a Integrity, usize)>,
    ) -> Result<Self> {
        let damaged =
            |(integrity, number): (&Integrity, _)| integrity.check_stored(number, bytes).err();
        let stored = ContainedFrame::parse(bytes, len_bytes, edition)
            // A wrong checksum is a better explanation than the error that
            // follows from it.
            .map_err(|error| expected.and_then(damaged).unwrap_or(error))?;
        Ok(Self {
            bytes,
            stored,
            expected,
        })
    }

    /// Decodes the frame into `out`, which must have the length of the tensor.
    pub fn decode<E: Engine>(&self, engine: &E, out: &mut [u8]) -> Result<()> {
        let Some((integrity, number)) = self.expected else {
            return self.stored.decode(engine, out);
        };
        // Decoding damaged bytes is safe, so the checksum can be computed at
        // the same time.
        let (checked, decoded) = engine.join_over(
            out.len(),
            || integrity.check_stored(number, self.bytes),
            || match integrity.compares_digests() {
                true => self.stored.decode_and_hash(engine, out).map(Some),
                false => self.stored.decode(engine, out).map(|()| None),
            },
        );
        integrity.check_tensor(number, checked.and(decoded)?)
    }
}

/// The stored statistics of all tensors, for comparison with the decoded
/// tensors. Viewers show stored statistics without comparing them with the
/// elements.
#[derive(Debug, Default)]
pub struct StatisticsCheck<'t> {
    expected: Vec<Expected>,
    index: Option<&'t ContainerIndex>,
}

/// The stored statistics of one tensor. This type is small, because a file may
/// describe a hundred thousand tensors.
#[derive(Debug)]
struct Expected {
    /// The number of the tensor's record.
    number: usize,
    span: Range<u64>,
    dtype: Dtype,
    shape: Box<[u64]>,
    summary: Figures,
    /// The figures of the bands; empty for a tensor of one band.
    bands: Box<[Figures]>,
}

impl<'t> StatisticsCheck<'t> {
    /// Reads the statistics of a file with this `prefix` and `tail`. `header`
    /// is the header of the original file, and `read` returns the bytes of a
    /// range. For a file without statistics, the check accepts every tensor.
    ///
    /// # Errors
    /// [`Rule::ZstnStatistics`] for statistics that are malformed or do not
    /// match their checksum, and the errors of `read`.
    pub fn new<'a, E: From<Error>>(
        header: &[u8],
        prefix: &ContainerPrefix,
        tail: &'t ContainerTail,
        mut read: impl FnMut(Range<u64>) -> Result<Cow<'a, [u8]>, E>,
    ) -> Result<Self, E> {
        let integrity = tail.integrity.as_ref();
        let Some(integrity) = integrity.filter(|all| all.statistics_bytes().is_some()) else {
            return Ok(Self::default());
        };
        let header = Header::parse(header, prefix.data_len_bytes)?;
        let tensors = tail.index.agree(&header)?;
        let shapes: Vec<_> = tensors.iter().map(|t| (t.dtype, &t.shape[..])).collect();
        let stored = integrity.statistics(&shapes)?.unwrap_or_default();
        let mut expected = Vec::new();
        for (number, (stored, tensor)) in stored.into_iter().zip(tensors).enumerate() {
            let Some(stored) = stored else { continue };
            let bands = if stored.range.is_empty() {
                Box::default()
            } else {
                let bands = stored.bands(&read(stored.range.clone())?);
                bands
                    .map_err(|error| error.tensor(&tensor.name))?
                    .into_boxed_slice()
            };
            expected.push(Expected {
                number,
                span: tensor.span.clone(),
                dtype: tensor.dtype,
                shape: tensor.shape.as_slice().into(),
                summary: stored.summary,
                bands,
            });
        }
        expected.sort_by_key(|of| of.span.start);
        Ok(Self {
            expected,
            index: Some(&tail.index),
        })
    }

    /// Compares the tensors whose data are the range `span` of the data buffer
    /// and have the content `bytes`.
    ///
    /// # Errors
    /// [`Rule::ZstnStatistics`] if such a tensor has other statistics.
    pub fn check<E: Engine>(&self, engine: &E, span: &Range<u64>, bytes: &[u8]) -> Result<()> {
        let start = self
            .expected
            .partition_point(|of| of.span.start < span.start);
        let at_span = self.expected[start..].iter();
        for of in at_span.take_while(|of| of.span.start == span.start) {
            if of.span != *span {
                continue;
            }
            let tensor = TensorRef::new(bytes, of.dtype, &of.shape);
            let bands = match &*of.bands {
                [] => core::slice::from_ref(&of.summary),
                bands => bands,
            };
            let found = Statistics::of(engine, tensor);
            if found.is_none_or(|found| found.summary != of.summary || found.bands != bands) {
                let error = Error::malformed(
                    Rule::ZstnStatistics,
                    "the statistics in the file do not match the tensor: pack it again",
                );
                let record = self.index.and_then(|index| index.records().get(of.number));
                return Err(match record {
                    Some(record) => error.tensor(&record.name),
                    None => error,
                });
            }
        }
        Ok(())
    }
}

/// Compares a block table, which only readers of rows use, with the stored
/// frame of a tensor of `len_bytes`. The table and the frame are each given
/// with their offset in the file. Offsets in errors are relative to the start
/// of the file.
///
/// # Errors
/// A table that is malformed or belongs to another frame.
pub fn check_table(
    (table_start, table): (u64, &[u8]),
    (frame_start, stored): (u64, &[u8]),
    len_bytes: u64,
    edition: Edition,
) -> Result<()> {
    let table = FrameTable::parse(table, stored.len() as u64, len_bytes, edition)
        .map_err(|error| error.within(table_start))?;
    table
        .check(stored)
        .map_err(|error| error.within(frame_start))
}
