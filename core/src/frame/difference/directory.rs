//! Reads ranges of a tensor (docs/formats/zxd1.md 11): determines the blocks and the
//! elements of the base that a range needs, and decodes them.

use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use super::block::{self, Joins, StoredBlock, byte_range};
use super::context::ContextMap;
use super::float_format::for_float;
use super::head::{DifferenceHead, Means};
use super::low_rank::LowRank;
use crate::bytes::{self, index};
use crate::engine::Engine;
use crate::entropy::interleaved::{DecodeTables, MAX_STATES, SLOT_BITS};
use crate::float::FloatType;
use crate::frame::rans_blocks::Block;
use crate::{Error, Result, Rule};

/// The maximum number of groups of a tensor that is read by ranges; each takes a
/// byte of memory. The limit is needed because a side stream can repeat one code at
/// no cost, and without the whole base, nothing else bounds the number of groups.
const MAX_GROUPS: u64 = 1 << 26;

/// The decoded head of a frame, with everything that is needed to decode its blocks.
#[derive(Debug, Clone)]
pub struct Directory {
    element: FloatType,
    base_digest: [u8; 16],
    frame_len_bytes: u64,
    pub(super) states: usize,
    elements: u64,
    group_elements: u64,
    block_elements: u64,
    codes: Vec<u8>,
    pub(super) means: Option<Means>,
    low_rank: Option<LowRank>,
    /// Maps the context of an element to its choice: the index of the table in the top
    /// four bits, the shift in the low bits.
    pub(super) choices: ContextMap,
    pub(super) tables: DecodeTables,
    pub(super) joins: Joins,
    /// The symbol of every element of an unchanged group, if there is only one.
    pub(super) unchanged: Option<u8>,
    blocks: Vec<Block>,
}

/// A range of a tensor and the ranges of the frame and of the base that are needed
/// to decode it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DifferencePlan {
    /// The range of the tensor to decode, in bytes.
    span: Range<u64>,
    blocks: Range<usize>,
    stored: Range<u64>,
    base: Range<u64>,
}

impl DifferencePlan {
    /// Returns the range of the frame to fetch, in bytes. It is empty if the range
    /// of the tensor is empty.
    #[must_use]
    pub fn stored(&self) -> Range<u64> {
        self.stored.clone()
    }

    /// Returns the range of the base tensor to fetch, in bytes.
    #[must_use]
    pub fn base(&self) -> Range<u64> {
        self.base.clone()
    }
}

impl Directory {
    /// Parses the head of a frame, for a tensor of `len_bytes` bytes. `head` must
    /// have at least [`head_len_bytes`](super::head_len_bytes) bytes.
    ///
    /// # Errors
    /// [`Rule::DeltaReference`] if the frame belongs to a tensor of another length;
    /// [`Limit`](crate::ErrorKind::Limit) if there are too many groups for reading
    /// ranges; otherwise the rule that the head violates.
    pub fn parse(head: &[u8], len_bytes: u64) -> Result<Self> {
        let head = DifferenceHead::parse(head)?;
        let own_len_bytes = head.elements * head.element.len_bytes() as u64;
        if own_len_bytes != len_bytes {
            return Err(Error::malformed(
                Rule::DeltaReference,
                format!(
                    "the delta was made against {own_len_bytes} bytes, the base has {len_bytes}"
                ),
            ));
        }
        if head.elements.div_ceil(head.group_elements) > MAX_GROUPS {
            return Err(Error::limit(format!(
                "the delta has more than {MAX_GROUPS} groups: read the whole tensor"
            )));
        }
        Self::new(&head)
    }

    /// Decodes the coded fields of a head. Callers have compared the number of
    /// elements with the base or limited the number of groups, so this allocates no
    /// more than the input justifies.
    pub(super) fn new(head: &DifferenceHead) -> Result<Self> {
        let choices = ContextMap::new(|context| head.choice(context));
        let unchanged = choices.unchanged();
        let unchanged = match unchanged & block::SHIFT_MASK {
            0 => head.tables[usize::from(unchanged >> SLOT_BITS)].only(),
            _ => None,
        };
        Ok(Self {
            element: head.element,
            base_digest: head.base_digest,
            frame_len_bytes: head.frame_len_bytes(),
            states: head.states,
            elements: head.elements,
            group_elements: head.group_elements,
            block_elements: head.block_elements.into(),
            codes: head.codes.decode()?,
            means: head.means.clone(),
            low_rank: head.low_rank.clone(),
            choices,
            tables: DecodeTables::new(&head.tables),
            joins: Joins::new(head.codings.iter().map(|coding| coding.shift)),
            unchanged,
            blocks: head.blocks.clone(),
        })
    }

    /// Returns the length of the tensor in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.elements * self.element.len_bytes() as u64
    }

    /// Returns the first 16 bytes of the BLAKE3 digest of the base.
    #[must_use]
    pub fn base_digest(&self) -> [u8; 16] {
        self.base_digest
    }

    /// Returns the length of the frame in bytes.
    #[must_use]
    pub fn frame_len_bytes(&self) -> u64 {
        self.frame_len_bytes
    }

    /// Plans how to decode the bytes `span` of the tensor.
    ///
    /// # Panics
    /// If `span` exceeds the tensor.
    #[must_use]
    pub fn plan(&self, span: Range<u64>) -> DifferencePlan {
        assert!(span.start <= span.end && span.end <= self.len_bytes());
        let width = self.element.len_bytes() as u64;
        if span.is_empty() {
            return DifferencePlan {
                base: span.clone(),
                stored: 0..0,
                blocks: 0..0,
                span,
            };
        }
        let end = span.end.div_ceil(width);
        let blocks = span.start / width / self.block_elements..end.div_ceil(self.block_elements);
        let elements = blocks.start * self.block_elements..end;
        let blocks = index(blocks.start)..index(blocks.end);
        DifferencePlan {
            stored: self.blocks[blocks.start].start..self.blocks[blocks.end - 1].range().end,
            base: elements.start * width..elements.end * width,
            span,
            blocks,
        }
    }

    /// Decodes the planned range from the bytes of [`DifferencePlan::stored`] and of
    /// [`DifferencePlan::base`]. Every block is first compared with its checksum. If
    /// a block is decoded only in part, the end of its streams is not checked.
    pub fn decode<E: Engine>(
        &self,
        engine: &E,
        plan: &DifferencePlan,
        stored: &[u8],
        base: &[u8],
    ) -> Result<Vec<u8>> {
        let len = |range: &Range<u64>| range.end - range.start;
        if stored.len() as u64 != len(&plan.stored) || base.len() as u64 != len(&plan.base) {
            return Err(Error::invalid_input("these are not the planned bytes"));
        }
        let mut out = bytes::buffer(base.len() as u64)?;
        let together = MAX_STATES / self.states;
        let job_bytes = together * index(self.block_elements) * self.element.len_bytes();
        let parts = out.chunks_mut(job_bytes).zip(base.chunks(job_bytes));
        let jobs = plan.blocks.clone().step_by(together).zip(parts).collect();
        let results = engine.map(jobs, |(first, (out, base))| {
            let blocks = &self.blocks[first..plan.blocks.end.min(first + together)];
            let start = blocks.first().map_or(0, |block| block.start) - plan.stored.start;
            let end = blocks.last().map_or(0, |block| block.range().end) - plan.stored.start;
            self.decode_blocks(first, bytes::part(stored, start..end), base, out)
        });
        results.into_iter().collect::<Result<()>>()?;
        let surplus = plan.span.start - plan.base.start;
        out.truncate(index(plan.span.end - plan.base.start));
        out.drain(..index(surplus));
        Ok(out)
    }

    /// Decodes the elements whose base is `base`. They start with block `first`, and
    /// `stored` starts with the bytes of that block.
    fn decode_blocks(
        &self,
        first: usize,
        stored: &[u8],
        base: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        let width = self.element.len_bytes();
        let first_element = first as u64 * self.block_elements;
        let mut predicted = Vec::new();
        if let Some(low_rank) = &self.low_rank {
            predicted = bytes::buffer(base.len() as u64)?;
            let first = index(first_element);
            let elements = first..first + base.len() / width;
            low_rank.predict(base, elements, &mut predicted);
        }
        let predicted = match self.low_rank {
            Some(_) => &predicted,
            None => base,
        };
        let block_bytes = index(self.block_elements) * width;
        let parts = predicted
            .chunks(block_bytes)
            .zip(out.chunks_mut(block_bytes));
        let mut left = stored;
        let mut blocks = Vec::new();
        for ((number, block), (predicted, out)) in (first..).zip(&self.blocks[first..]).zip(parts) {
            let range = block.range();
            let (stored, after) = left.split_at(index(range.end - range.start));
            left = after;
            block.check(number, stored, Rule::DifferenceBlockChecksum)?;
            let [rans, raw] = block.split(stored);
            let first_element = number as u64 * self.block_elements;
            let end = self.elements.min(first_element + self.block_elements);
            blocks.push(StoredBlock {
                start: block.start,
                first_element,
                rans,
                raw,
                is_whole: byte_range(0..end - first_element, width).end == predicted.len(),
                predicted,
                out,
            });
        }
        for_float!(self.element, F => block::decode::<F>(self, blocks))
    }

    /// Returns the groups of the `len` elements that start with element `first`: the code
    /// of each group, and its range relative to `first`.
    pub(super) fn groups(
        &self,
        first: u64,
        len: usize,
    ) -> impl Iterator<Item = (u8, Range<usize>)> + '_ {
        let mut start = 0;
        core::iter::from_fn(move || {
            if start == len {
                return None;
            }
            let element = first + start as u64;
            let group = element / self.group_elements;
            let left = (group + 1) * self.group_elements - element;
            let end = match usize::try_from(left) {
                Ok(left) => len.min(start + left),
                Err(_) => len,
            };
            let range = start..end;
            start = end;
            Some((self.codes[index(group)], range))
        })
    }
}
