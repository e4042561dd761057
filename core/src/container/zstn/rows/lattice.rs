//! Reads rows from a lattice frame (docs/formats/zxq1.md 6). The block table of
//! the symbols shows which of them a range requires; the inner frames with the
//! data of the groups are read whole.

use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use super::block_table::{Block, bad};
use super::check_lens;
use super::{BlockTable, FramePlan, block_table};
use crate::bytes::{self, Cursor, index, part};
use crate::engine::Engine;
use crate::frame::lattice::{self, LatticeHead, SideFrames};
use crate::frame::{Family, FrameFamily as _};
use crate::{Error, Result};

/// The maximum number of bands of a tensor, because each of them decodes the
/// data of all groups.
const MAX_BANDS: u64 = 8;

/// The locations of the blocks of a `ZXQ1` frame.
#[derive(Debug, Clone, PartialEq)]
pub struct LatticeTable {
    head: LatticeHead,
    /// The bytes of the frame before the first inner frame.
    head_bytes: Vec<u8>,
    /// The range of the frame that contains the inner frame of the symbols.
    symbols_range: Range<u64>,
    symbols: BlockTable,
    /// The lengths of the inner frames that follow the symbols.
    side_lens: Vec<u64>,
    side: Block,
}

impl LatticeTable {
    /// Returns the table of a stored frame, or `None` for a frame of another
    /// family and for one whose symbols have no [`BlockTable`].
    #[must_use]
    pub fn of(frame: &[u8]) -> Option<Self> {
        if Family::recognise(frame) != Some(Family::Lattice) {
            return None;
        }
        let parsed = lattice::Frame::parse(frame).ok()?;
        let range = parsed.symbols_range();
        let symbols = BlockTable::of(&frame[range.clone()])?;
        let head_bytes = frame[..range.start].to_vec();
        let (head, lens) = head_and_lens(&head_bytes).ok()?;
        Some(Self {
            head,
            side_lens: lens[1..].to_vec(),
            side: Block::of(&frame[range.end..parsed.info().stored_len()]),
            symbols_range: range.start as u64..range.end as u64,
            symbols,
            head_bytes,
        })
    }

    /// Parses the table of a frame of `frame_len_bytes` that holds a tensor of
    /// `tensor_len_bytes`. Offsets in errors are relative to the start of
    /// `bytes`.
    pub fn parse(bytes: &[u8], frame_len_bytes: u64, tensor_len_bytes: u64) -> Result<Self> {
        let mut cursor = Cursor::new(block_table::fields(bytes)?);
        let head_len = cursor.u16("length of the head")?;
        let head_bytes = cursor.take(head_len.into(), "head")?.to_vec();
        let (head, lens) = head_and_lens(&head_bytes).map_err(|error| error.within(2))?;
        let side_checksum = cursor.u32("checksum of the groups")?;
        let at = cursor.position() as u64;
        let symbols = cursor.take(cursor.remaining() as u64, "block table of the symbols")?;

        let frames = lens
            .iter()
            .try_fold(0, |sum: u64, &len| sum.checked_add(len));
        let len_bytes = frames.and_then(|frames| frames.checked_add(head_len.into()));
        if len_bytes.is_none_or(|len| len > frame_len_bytes) {
            let detail = format!("its parts reach past the frame of {frame_len_bytes} bytes");
            return Err(bad(detail));
        }
        let elements = head.geometry.elements();
        let of = |item_bytes: usize| elements.checked_mul(item_bytes as u64);
        let (Some(symbol_bytes), Some(decoded)) =
            (of(head.grid.symbol_bytes()), of(head.elements.len_bytes()))
        else {
            return Err(bad("it describes over 2^64 bytes".into()));
        };
        if decoded != tensor_len_bytes {
            let detail = format!("it describes {decoded} bytes, the tensor has {tensor_len_bytes}");
            return Err(bad(detail));
        }
        let symbols_range = u64::from(head_len)..u64::from(head_len) + lens[0];
        let symbols =
            BlockTable::parse(symbols, lens[0], symbol_bytes).map_err(|e| e.within(at))?;
        Ok(Self {
            side: Block {
                stored_len_bytes: lens[1..].iter().sum(),
                checksum: side_checksum,
            },
            side_lens: lens[1..].to_vec(),
            head,
            head_bytes,
            symbols_range,
            symbols,
        })
    }

    /// Returns the bytes of the table.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // The length of a head fits in 16 bits: it has at most 26 bytes, 256
        // values and five lengths.
        let mut out = self.head_bytes.len().to_le_bytes()[..2].to_vec();
        out.extend_from_slice(&self.head_bytes);
        out.extend_from_slice(&self.side.checksum.to_le_bytes());
        out.extend_from_slice(&self.symbols.to_bytes());
        block_table::seal(out)
    }

    /// Compares the blocks of `frame` with this table. The frame must have the
    /// length given to [`LatticeTable::parse`]. Offsets in errors are relative
    /// to the start of the frame.
    pub fn check(&self, frame: &[u8]) -> Result<()> {
        if !frame.starts_with(&self.head_bytes) {
            return Err(bad("its head differs from the frame's".into()).at(0));
        }
        let symbols = part(frame, self.symbols_range.clone());
        let start = self.symbols_range.start;
        self.symbols.check(symbols).map_err(|e| e.within(start))?;
        let side = self.side_range();
        self.side
            .check(part(frame, side.clone()))
            .map_err(|e| e.at(side.start))
    }

    /// Returns the head of the frame.
    #[must_use]
    pub fn head(&self) -> &LatticeHead {
        &self.head
    }

    /// Returns the block table of the inner frame of the symbols.
    #[must_use]
    pub fn symbols(&self) -> &BlockTable {
        &self.symbols
    }

    /// Plans how to read the bytes `span` of the tensor.
    ///
    /// # Panics
    /// If `span` does not lie inside the tensor.
    #[must_use]
    pub fn plan(&self, span: Range<u64>) -> LatticePlan {
        let item_bytes = self.head.elements.len_bytes() as u64;
        let symbol_bytes = self.head.grid.symbol_bytes() as u64;
        let elements = span.start / item_bytes..span.end.div_ceil(item_bytes);
        let wanted = elements.start * symbol_bytes..elements.end * symbol_bytes;
        let symbols = FramePlan::new(&self.symbols, wanted);
        let start = self.symbols_range.start;
        let shifted = |range: &Range<u64>| start + range.start..start + range.end;
        let mut ranges: Vec<Range<u64>> = symbols.ranges().iter().map(shifted).collect();
        let side = self.side_range();
        match ranges.last_mut() {
            Some(last) if last.end == side.start => last.end = side.end,
            _ => ranges.push(side),
        }
        LatticePlan {
            head: self.head.clone(),
            side_lens: self.side_lens.clone(),
            side: self.side,
            first: elements.start,
            span,
            symbols,
            symbols_at: start,
            ranges,
        }
    }

    /// Returns the range of the inner frames that follow the symbols.
    fn side_range(&self) -> Range<u64> {
        let start = self.symbols_range.end;
        start..start + self.side.stored_len_bytes
    }
}

/// Parses the bytes before the first inner frame, and checks that nothing
/// follows them.
fn head_and_lens(bytes: &[u8]) -> Result<(LatticeHead, Vec<u64>)> {
    let mut cursor = Cursor::new(bytes);
    let head = LatticeHead::parse(&mut cursor)?;
    let lens = head.lens(&mut cursor)?;
    match cursor.remaining() {
        0 => Ok((head, lens)),
        rest => Err(bad(format!("{rest} bytes follow the head"))),
    }
}

/// The plan for reading a range of a tensor from a `ZXQ1` frame: the ranges of
/// its frame to fetch, and how to decode them.
#[derive(Debug, Clone, PartialEq)]
pub struct LatticePlan {
    head: LatticeHead,
    side_lens: Vec<u64>,
    side: Block,
    /// The number of the first planned element.
    first: u64,
    /// The planned range of the tensor.
    span: Range<u64>,
    symbols: FramePlan,
    /// The offset in the frame at which the inner frame of the symbols begins.
    symbols_at: u64,
    /// The ranges of the frame to fetch, in ascending order; no two of them
    /// touch.
    ranges: Vec<Range<u64>>,
}

impl LatticePlan {
    /// Returns the ranges of the frame to fetch, in ascending order; no two of
    /// them touch.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Returns the number of bytes of the tensor that are decoded together.
    pub(super) fn band_bytes(&self) -> u64 {
        let item_bytes = self.head.elements.len_bytes() as u64;
        let symbol_bytes = self.head.grid.symbol_bytes() as u64;
        let in_block = self.symbols.band_bytes() / symbol_bytes * item_bytes;
        let whole = self.head.geometry.elements().saturating_mul(item_bytes);
        in_block.max(whole.div_ceil(MAX_BANDS))
    }

    /// Decodes the planned range of the tensor from the bytes of
    /// [`LatticePlan::ranges`]. Every block is first compared with its
    /// checksum.
    pub fn decode<E: Engine>(&self, engine: &E, fetched: &[&[u8]]) -> Result<Vec<u8>> {
        check_lens(&self.ranges, fetched)?;
        // The inner frames that follow the symbols are at the end of the last
        // range, which may also contain blocks of the symbols before them.
        let Some((last, others)) = fetched.split_last() else {
            return Ok(Vec::new());
        };
        let (symbols, side) = last.split_at(last.len() - index(self.side.stored_len_bytes));
        let side_at = self.ranges.last().map_or(0, |range| range.end) - side.len() as u64;
        let within = |error: Error| error.within(side_at);
        self.side.check(side).map_err(within)?;
        let lens = self.side_lens.iter().copied();
        let frames = SideFrames::parse(&mut Cursor::new(side), &self.head, lens).map_err(within)?;
        let groups = frames.decode(engine, &self.head)?;
        let mut fetched = others.to_vec();
        fetched.extend((!symbols.is_empty()).then_some(symbols));
        let symbols = self.symbols.decode(engine, &fetched);
        let symbols = symbols.map_err(|error| error.within(self.symbols_at))?;

        let item_bytes = self.head.elements.len_bytes() as u64;
        let count = self.span.end.div_ceil(item_bytes) - self.first;
        let mut out = bytes::buffer(count * item_bytes)?;
        groups.fill(engine, &self.head, self.first, &symbols, &mut out)?;
        let start = self.first * item_bytes;
        out.truncate(index(self.span.end - start));
        out.drain(..index(self.span.start - start));
        Ok(out)
    }
}
