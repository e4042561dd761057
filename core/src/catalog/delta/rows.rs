//! Parts of a delta's tensors, from parts of its records and of the base's tensors
//! (docs/formats/zxd1.md 11).
//!
//! Nothing of a part says whether the base is the right one, as the digest of a whole
//! tensor does. So a tensor is cut only if the base's file holds the digest of its
//! tensor, and that is the one that the delta names. Otherwise the tensor is read as
//! a whole, which also says what is wrong.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use super::{FormatContents, RecordKind, payload};
use crate::bytes::index;
use crate::catalog::{FileTensor, RangePlan};
use crate::container::model_delta::ShortDigest;
use crate::container::zstn::rows::MIN_FRAME_BYTES;
use crate::engine::Engine;
use crate::float::FloatType;
use crate::frame::difference::{
    self, BLOCK_BYTES, BLOCK_ELEMENTS, DifferencePlan, Directory, row_elements,
};
use crate::{Error, ErrorKind, Result};

/// Bytes that are fetched first of a head, whose length is unknown, besides a byte for
/// each group and the entries of its blocks: contexts and tables are shorter.
const HEAD_GUESS_BYTES: u64 = 4 << 10;

/// A part of a tensor that takes a part of the base's tensor.
#[derive(Debug, Clone)]
pub enum DeltaPart {
    /// The base's bytes are the tensor's.
    Copy,
    /// The file holds the difference from them.
    Difference(Box<DifferencePart>),
}

/// A part of a `ZXD1` frame.
#[derive(Debug, Clone)]
pub struct DifferencePart {
    /// Offset of the frame in the file.
    start: u64,
    directory: Directory,
    plan: DifferencePlan,
}

impl DeltaPart {
    /// Decodes the part from the planned bytes of the file and of the base's tensor.
    pub fn decode<E: Engine>(&self, engine: &E, fetched: &[&[u8]], base: &[u8]) -> Result<Vec<u8>> {
        match self {
            Self::Copy => Ok(base.to_vec()),
            Self::Difference(part) => {
                let stored = fetched.first().copied().unwrap_or_default();
                let decoded = part.directory.decode(engine, &part.plan, stored, base);
                decoded.map_err(|error| error.within(part.start))
            }
        }
    }
}

impl FormatContents {
    /// Returns the digest that the base holds of its tensor, if the tensor can be cut
    /// as far as that is known without its head.
    fn digest_of_base(&self, tensor: &FileTensor, number: usize) -> Option<ShortDigest> {
        let digest = self.base_digests.get(number).copied().flatten()?;
        // Low-rank products are counted in numbers of the platform.
        let is_long = tensor.len_bytes() > MIN_FRAME_BYTES;
        (is_long && usize::try_from(tensor.len_bytes()).is_ok()).then_some(digest)
    }

    /// Returns the range of the file that [`Self::plan_part`] needs of a difference: the
    /// record up to its first block, whose length is in the bytes that are fetched
    /// first. `None` if `fetched` is enough.
    pub(super) fn head_range(
        &self,
        tensor: &FileTensor,
        number: usize,
        fetched: &[u8],
    ) -> Option<Range<u64>> {
        self.digest_of_base(tensor, number)?;
        let (record, _) = self.records.get(number)?;
        if record.kind != RecordKind::Difference {
            return None;
        }
        let frame = record.payload.clone();
        let start = tensor.stored.start;
        if fetched.is_empty() {
            let width = FloatType::from_dtype(tensor.dtype)?.len_bytes();
            let elements = index(tensor.len_bytes()) / width;
            let groups = elements.div_ceil(row_elements(&tensor.shape, elements));
            let blocks = elements.div_ceil(BLOCK_ELEMENTS) as u64;
            let guess = HEAD_GUESS_BYTES + groups as u64 + BLOCK_BYTES * blocks;
            return Some(start..frame.end.min(frame.start.saturating_add(guess)));
        }
        let head = fetched.get(index(frame.start - start)..)?;
        let end = frame
            .start
            .saturating_add(difference::head_len_bytes(head).ok()?);
        let head = start..end.min(frame.end);
        ((fetched.len() as u64) < head.end - head.start).then_some(head)
    }

    /// Plans for the bytes `span` of a tensor from the `head` of its record; `None`
    /// if it has to be read as a whole.
    pub(super) fn plan_part(
        &self,
        tensor: &FileTensor,
        number: usize,
        span: &Range<u64>,
        head: Option<&[u8]>,
    ) -> Result<Option<RangePlan>> {
        let (Some(digest), (record, info)) =
            (self.digest_of_base(tensor, number), &self.records[number])
        else {
            return Ok(None);
        };
        let in_file = |error: Error| error.within(record.payload.start).tensor(&tensor.name);
        match (record.kind, info, head) {
            (RecordKind::Copy, Some(info), _) if info.digest == digest => {
                let part = DeltaPart::Copy;
                Ok(Some(RangePlan::of_delta(0..0, span.clone(), part)))
            }
            (RecordKind::Difference, _, Some(head)) => {
                let frame = payload(tensor, record, self.edition, head)?;
                let directory = match Directory::parse(frame, tensor.len_bytes()) {
                    Ok(directory) => directory,
                    Err(error) if error.kind() == ErrorKind::Limit => return Ok(None),
                    Err(error) => return Err(in_file(error)),
                };
                let len_bytes = record.payload.end - record.payload.start;
                if directory.base_digest() != digest || directory.frame_len_bytes() != len_bytes {
                    return Ok(None);
                }
                let plan = directory.plan(span.clone());
                let start = record.payload.start;
                let stored = start + plan.stored().start..start + plan.stored().end;
                let base = plan.base();
                let part = DeltaPart::Difference(Box::new(DifferencePart {
                    start,
                    directory,
                    plan,
                }));
                Ok(Some(RangePlan::of_delta(stored, base, part)))
            }
            _ => Ok(None),
        }
    }
}
