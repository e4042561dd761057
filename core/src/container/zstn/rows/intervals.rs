//! Reads rows from a `ZXI1` frame (docs/formats/zxi1.md 6): its head, and the blocks that
//! hold them.

use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use super::block_table::{self, bad};
use super::check_lens;
use crate::Result;
use crate::bytes::{self, Cursor, index};
use crate::engine::Engine;
use crate::frame::intervals::{self, Head};
use crate::frame::{Family, FrameFamily as _};

/// The maximum number of bands of a tensor, because each of them decodes the codes of all
/// rows and columns.
const MAX_BANDS: u64 = 8;
/// The minimum lengths of a head and of a block.
const MIN_HEAD_BYTES: u32 = 39;
const MIN_BLOCK_BYTES: u32 = 32;

/// The locations of the blocks of a `ZXI1` frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntervalsTable {
    element_bytes: u8,
    block_elements: u32,
    head_len_bytes: u32,
    block_lens_bytes: Vec<u32>,
    tensor_len_bytes: u64,
}

impl IntervalsTable {
    /// Returns the table of a stored frame, or `None` for a frame of another family and for
    /// one of a single block.
    #[must_use]
    pub fn of(frame: &[u8]) -> Option<Self> {
        if Family::recognise(frame) != Some(Family::Intervals) {
            return None;
        }
        let parsed = intervals::Frame::parse(frame).ok()?;
        let tensor_len_bytes = parsed.info().decoded_len_bytes();
        let table = Self::of_head(parsed.head(), tensor_len_bytes)?;
        (table.block_lens_bytes.len() > 1).then_some(table)
    }

    fn of_head(head: &Head, tensor_len_bytes: u64) -> Option<Self> {
        let lens = head
            .blocks()
            .map(|block| u32::try_from(block.end - block.start).ok());
        Some(Self {
            element_bytes: u8::try_from(head.element_bytes()).ok()?,
            block_elements: head.block_elements(),
            head_len_bytes: u32::try_from(head.len_bytes()).ok()?,
            block_lens_bytes: lens.collect::<Option<_>>()?,
            tensor_len_bytes,
        })
    }

    /// Parses the table of a frame of `frame_len_bytes` that holds a tensor of
    /// `tensor_len_bytes`. Offsets in errors are relative to the start of `bytes`.
    pub fn parse(bytes: &[u8], frame_len_bytes: u64, tensor_len_bytes: u64) -> Result<Self> {
        let mut cursor = Cursor::new(block_table::fields(bytes)?);
        let element_bytes = cursor.u8("bytes of an element")?;
        let block_elements = cursor.u32("elements of a block")?;
        let head_len_bytes = cursor.u32("length of the head")?;
        if !intervals::is_element_len(element_bytes) || !intervals::is_block_len(block_elements) {
            return Err(bad(
                "the sizes of its elements or blocks do not exist".into()
            ));
        }
        let block_bytes = u64::from(block_elements) * u64::from(element_bytes);
        let count = tensor_len_bytes.div_ceil(block_bytes);
        if cursor.remaining() as u64 != count.saturating_mul(4) {
            let detail = format!("it has no list of {count} blocks");
            return Err(bad(detail));
        }
        let lens = (0..count).map(|_| cursor.u32("length of a block"));
        let block_lens_bytes = lens.collect::<Result<Vec<_>>>()?;
        let is_short = |len: &u32| *len < MIN_BLOCK_BYTES;
        if head_len_bytes < MIN_HEAD_BYTES || block_lens_bytes.iter().any(is_short) {
            return Err(bad("its head or a block is too short".into()));
        }
        let blocks: u64 = block_lens_bytes.iter().map(|&len| u64::from(len)).sum();
        if blocks.saturating_add(head_len_bytes.into()) != frame_len_bytes {
            let detail = format!("its parts do not fill the frame of {frame_len_bytes} bytes");
            return Err(bad(detail));
        }
        Ok(Self {
            element_bytes,
            block_elements,
            head_len_bytes,
            block_lens_bytes,
            tensor_len_bytes,
        })
    }

    /// Returns the bytes of the table.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = alloc::vec![self.element_bytes];
        out.extend_from_slice(&self.block_elements.to_le_bytes());
        out.extend_from_slice(&self.head_len_bytes.to_le_bytes());
        out.extend(
            self.block_lens_bytes
                .iter()
                .flat_map(|len| len.to_le_bytes()),
        );
        block_table::seal(out)
    }

    /// Compares the table with `frame`, and every part of the frame with its checksum. Offsets
    /// in errors are relative to the start of the frame.
    pub fn check(&self, frame: &[u8]) -> Result<()> {
        let parsed = intervals::Frame::parse(frame)?;
        self.check_head(parsed.head())?;
        parsed.check_blocks()
    }

    fn check_head(&self, head: &Head) -> Result<()> {
        let is_same = head.decoded_len_bytes()? == self.tensor_len_bytes
            && Self::of_head(head, self.tensor_len_bytes).as_ref() == Some(self);
        match is_same {
            true => Ok(()),
            false => Err(bad("it differs from the head of the frame".into()).at(0)),
        }
    }

    /// Plans how to read the bytes `span` of the tensor.
    ///
    /// # Panics
    /// If `span` does not lie inside the tensor.
    #[must_use]
    pub fn plan(&self, span: Range<u64>) -> IntervalsPlan {
        assert!(span.start <= span.end && span.end <= self.tensor_len_bytes);
        let block_bytes = self.block_bytes();
        let first = index(span.start / block_bytes);
        let mut ranges = Vec::new();
        if !span.is_empty() {
            let blocks = first..index(span.end.div_ceil(block_bytes));
            let len = |blocks: &[u32]| blocks.iter().map(|&len| u64::from(len)).sum::<u64>();
            let head_end = u64::from(self.head_len_bytes);
            let start = head_end + len(&self.block_lens_bytes[..first]);
            let end = start + len(&self.block_lens_bytes[blocks]);
            match first {
                0 => ranges.push(0..end),
                _ => ranges.extend([0..head_end, start..end]),
            }
        }
        IntervalsPlan {
            table: self.clone(),
            span,
            first,
            ranges,
        }
    }

    /// Returns the number of bytes of the tensor in a block.
    fn block_bytes(&self) -> u64 {
        u64::from(self.block_elements) * u64::from(self.element_bytes)
    }
}

/// The plan for reading a range of a tensor from a `ZXI1` frame: the ranges of its frame to
/// fetch, and how to decode them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntervalsPlan {
    table: IntervalsTable,
    /// The planned range of the tensor.
    span: Range<u64>,
    /// The number of the first block.
    first: usize,
    /// The ranges of the frame to fetch, in ascending order; no two of them touch.
    ranges: Vec<Range<u64>>,
}

impl IntervalsPlan {
    /// Returns the ranges of the frame to fetch, in ascending order; no two of them touch.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Returns the number of bytes of the tensor that are decoded together.
    pub(super) fn band_bytes(&self) -> u64 {
        let whole = self.table.tensor_len_bytes;
        self.table.block_bytes().max(whole.div_ceil(MAX_BANDS))
    }

    /// Decodes the planned range of the tensor from the bytes of [`IntervalsPlan::ranges`].
    /// The head and every block are first compared with their checksums.
    pub fn decode<E: Engine>(&self, engine: &E, fetched: &[&[u8]]) -> Result<Vec<u8>> {
        check_lens(&self.ranges, fetched)?;
        let Some((first, others)) = fetched.split_first() else {
            return Ok(Vec::new());
        };
        let (head, after) = first.split_at(self.table.head_len_bytes as usize);
        let stored = others.first().copied().unwrap_or(after);
        let head = Head::parse(head)?;
        self.table.check_head(&head)?;
        let width = u64::from(self.table.element_bytes);
        let start = self.first as u64 * self.table.block_bytes();
        let mut out = bytes::buffer(self.span.end.next_multiple_of(width) - start)?;
        head.decode(engine, self.first, stored, &mut out)?;
        out.truncate(index(self.span.end - start));
        out.drain(..index(self.span.start - start));
        Ok(out)
    }
}
