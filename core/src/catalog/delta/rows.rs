//! Reads parts of a delta's tensors from parts of its records and of the base's
//! tensors (docs/formats/zxd1.md 11).
//!
//! Whether the base is the right one cannot be checked on a part of a tensor,
//! because the digests cover whole tensors. A part is therefore read without
//! the rest of the tensor only if the base's file stores a digest of its tensor
//! and the delta states the same digest. Otherwise the whole tensor is read,
//! and decoding it reports what is wrong.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use super::{FormatContents, RecordKind, payload};
use crate::bytes::index;
use crate::catalog::{FileTensor, RangePlan};
use crate::container::model_delta::{Grown, ShortDigest};
use crate::container::zstn::rows::MIN_FRAME_BYTES;
use crate::engine::Engine;
use crate::float::FloatType;
use crate::frame::difference::{
    self, BLOCK_BYTES, BLOCK_ELEMENTS, DifferencePlan, Directory, row_elements,
};
use crate::{ErrorKind, Result};

/// The number of bytes fetched first for those sections of a frame's head whose
/// length is not known in advance, the contexts and tables; they usually take
/// fewer. One byte per group and the entries of the blocks are fetched in
/// addition.
const HEAD_GUESS_BYTES: u64 = 4 << 10;

/// How to decode a part of a tensor that depends on the base's tensor.
#[derive(Debug, Clone)]
pub enum DeltaPart {
    /// The bytes of this tensor are copied from the base.
    Copy,
    /// The file stores a difference from the bytes of the base's tensor.
    Difference(Box<DifferencePart>),
}

/// The blocks of a `ZXD1` frame that a part of a tensor requires.
#[derive(Debug, Clone)]
pub struct DifferencePart {
    /// Offset of the frame in the file.
    start: u64,
    directory: Directory,
    plan: DifferencePlan,
}

/// The part of a tensor that is decoded from the base: the whole tensor, or the
/// beginning of one with more rows.
struct FromBase {
    kind: RecordKind,
    len_bytes: u64,
    /// The range of its payload in the file.
    frame: Range<u64>,
}

impl DeltaPart {
    /// Decodes the part from the planned bytes of the file and of the base's
    /// tensor.
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
    /// Returns the digest that the base's file stores for the tensor that this
    /// one depends on, unless the tensor is too short or too long for reading
    /// parts of it.
    fn digest_of_base(&self, tensor: &FileTensor, number: usize) -> Option<ShortDigest> {
        let digest = self.base_digests.get(number).copied().flatten()?;
        // Low-rank products are indexed with `usize`.
        let is_long = tensor.len_bytes() > MIN_FRAME_BYTES;
        (is_long && usize::try_from(tensor.len_bytes()).is_ok()).then_some(digest)
    }

    /// Returns the part of tensor `number` that is decoded from the base. `payload`
    /// contains the first bytes of the payload of its record. Returns `None` if that
    /// is a damaged one.
    fn part_from_base(&self, number: usize, payload: &[u8]) -> Option<FromBase> {
        let (record, info) = self.records.get(number)?;
        let frame = self.frame(number)?;
        if record.kind != RecordKind::Grown {
            return Some(FromBase {
                kind: record.kind,
                len_bytes: record.len_bytes(),
                frame,
            });
        }
        let (kind, len_bytes) = Grown::head(payload).ok()?;
        Some(FromBase {
            kind,
            len_bytes: info.as_ref()?.source?.len_bytes,
            frame: frame.start..frame.start.saturating_add(len_bytes).min(frame.end),
        })
    }

    /// Returns the range of the file that [`Self::plan_part`] requires as
    /// `head` for a difference: the record up to its first block. The length of
    /// the head is one of its own first fields, so the first answer is a guess
    /// and the second one exact. Returns `None` once `fetched` is enough.
    pub(super) fn head_range(
        &self,
        tensor: &FileTensor,
        number: usize,
        fetched: &[u8],
    ) -> Option<Range<u64>> {
        self.digest_of_base(tensor, number)?;
        let (record, _) = self.records.get(number)?;
        if !matches!(record.kind, RecordKind::Difference | RecordKind::Grown) {
            return None;
        }
        let start = tensor.stored.start;
        if fetched.is_empty() {
            let frame = self.frame(number)?;
            let width = FloatType::from_dtype(tensor.dtype).map_or(1, FloatType::len_bytes);
            let elements = index(tensor.len_bytes()) / width;
            let groups = elements.div_ceil(row_elements(&tensor.shape, elements));
            let blocks = elements.div_ceil(BLOCK_ELEMENTS) as u64;
            let guess = HEAD_GUESS_BYTES + groups as u64 + BLOCK_BYTES * blocks;
            return Some(start..frame.end.min(frame.start.saturating_add(guess)));
        }
        let payload = fetched.get(index(record.payload.start - start)..)?;
        let FromBase { kind, frame, .. } = self.part_from_base(number, payload)?;
        if kind != RecordKind::Difference {
            return None;
        }
        let head = fetched.get(index(frame.start - start)..)?;
        let len = difference::head_len_bytes(head).ok()?;
        let head = start..frame.end.min(frame.start.saturating_add(len));
        ((fetched.len() as u64) < head.end - head.start).then_some(head)
    }

    /// Plans how to read the bytes `span` of a tensor, given the `head` of its
    /// record. Returns `None` if the whole tensor has to be read.
    pub(super) fn plan_part(
        &self,
        tensor: &FileTensor,
        number: usize,
        span: &Range<u64>,
        head: Option<&[u8]>,
    ) -> Result<Option<RangePlan>> {
        let (Some(digest), (record, Some(info))) =
            (self.digest_of_base(tensor, number), &self.records[number])
        else {
            return Ok(None);
        };
        let source = info.source;
        if source.is_some_and(|source| source.digest != digest) {
            return Ok(None);
        }
        let in_base = |span: Range<u64>| {
            let start = source.map_or(0, |source| source.start);
            start + span.start..start + span.end
        };
        let payload = match (record.kind, head) {
            (RecordKind::Difference | RecordKind::Grown, Some(head)) => {
                payload(tensor, record, self.edition, head)?
            }
            _ => &[],
        };
        let part = self.part_from_base(number, payload);
        let Some(FromBase {
            kind,
            len_bytes,
            frame,
        }) = part.filter(|part| span.end <= part.len_bytes)
        else {
            return Ok(None);
        };
        match kind {
            RecordKind::Copy if source.is_some() || info.digest == digest => {
                let part = DeltaPart::Copy;
                Ok(Some(RangePlan::of_delta(0..0, in_base(span.clone()), part)))
            }
            RecordKind::Difference if head.is_some() => {
                let start = index(frame.start - record.payload.start);
                let stored = payload.get(start..).unwrap_or_default();
                let directory = match Directory::parse(stored, len_bytes) {
                    Ok(directory) => directory,
                    Err(error) if error.kind() == ErrorKind::Limit => return Ok(None),
                    Err(error) => return Err(error.within(frame.start).tensor(&tensor.name)),
                };
                let is_right = source.is_some() || directory.base_digest() == digest;
                if !is_right || directory.frame_len_bytes() != frame.end - frame.start {
                    return Ok(None);
                }
                let plan = directory.plan(span.clone());
                let start = frame.start;
                let stored = start + plan.stored().start..start + plan.stored().end;
                let base = in_base(plan.base());
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
