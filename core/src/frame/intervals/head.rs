//! The head of a frame (docs/formats/zxi1.md 4), which precedes the blocks.

use alloc::format;
use alloc::vec::Vec;

use super::{MAGIC, VERSION};
use crate::bytes::Cursor;
use crate::checksum::agrees;
use crate::entropy::bits::{BitReader, BitWriter};
use crate::entropy::interleaved::{Frequencies, MAX_TABLES, SLOT_BITS, SLOTS, SideStream};
use crate::frame::rans_blocks::{
    self, BLOCK_BYTES, Block, head_checksum, is_block_len, seal_head, write_tables_and_list,
};
use crate::{Error, Result, Rule};

/// Offset of the checksum, which covers the whole head except itself.
const CHECKSUM_AT: usize = 32;

/// The maximum number of contexts, and of intervals.
pub(super) const MAX_CONTEXTS: usize = 256;
pub(super) const MAX_INTERVALS: usize = 256;

const TABLE_BITS: u32 = 4;
const LENGTH_BITS: u32 = 5;

/// An interval of integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interval {
    /// The first integer.
    pub start: u32,
    /// The base-2 logarithm of the number of integers.
    pub length_log: u8,
}

/// The sizes that a head begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Number of bytes of an element: 1, 2 or 4.
    pub element_bytes: usize,
    /// Number of rANS states.
    pub states: usize,
    /// Number of elements of the tensor.
    pub elements: u64,
    /// Number of elements of a row.
    pub row_elements: u64,
    /// Number of elements of a block.
    pub block_elements: u32,
}

impl Layout {
    fn parse(cursor: &mut Cursor) -> Result<Self> {
        let wrong = |detail, at| Err(Error::malformed(Rule::IntervalsHead, detail).at(at));
        let element_bytes = cursor.u8("bytes of an element")?;
        if !is_element_len(element_bytes) {
            return wrong(format!("elements cannot have {element_bytes} bytes"), 5);
        }
        let reserved = cursor.u8("reserved byte")?;
        if reserved != 0 {
            return wrong(format!("the reserved byte is {reserved}, not 0"), 6);
        }
        let states_log = cursor.u8("number of states")?;
        if !(3..=5).contains(&states_log) {
            return wrong(format!("2^{states_log} states are not 8 to 32"), 7);
        }
        let elements = cursor.u64("number of elements")?;
        // If there were more elements, offsets of blocks could exceed 64 bits.
        if elements == 0 || elements > u64::MAX >> 8 {
            return wrong(format!("a frame cannot have {elements} elements"), 8);
        }
        let row_elements = cursor.u64("elements of a row")?;
        if !(1..=elements).contains(&row_elements) {
            let detail = format!("{elements} elements cannot have rows of {row_elements}");
            return wrong(detail, 16);
        }
        let codes = elements.div_ceil(row_elements) + row_elements;
        if codes > max_codes(elements) {
            let detail = format!("{elements} elements cannot have {codes} rows and columns");
            return wrong(detail, 16);
        }
        let block_elements = cursor.u32("elements of a block")?;
        if !is_block_len(block_elements) {
            return wrong(format!("blocks cannot have {block_elements} elements"), 24);
        }
        Ok(Self {
            element_bytes: element_bytes.into(),
            states: 1 << states_log,
            elements,
            row_elements,
            block_elements,
        })
    }
}

/// Returns the maximum number of rows and columns together. It bounds the memory for their
/// codes, which may take no bytes in the frame.
pub(super) fn max_codes(elements: u64) -> u64 {
    elements / 8 + (1 << 16)
}

/// Returns whether elements may have this number of bytes.
#[must_use]
pub fn is_element_len(len_bytes: u8) -> bool {
    [1, 2, 4].contains(&len_bytes)
}

/// A parsed head whose fields are consistent. Readers of ranges fetch it first.
#[derive(Debug, Clone)]
pub struct Head<'a> {
    pub(super) layout: Layout,
    pub(super) row_codes: SideStream<'a>,
    pub(super) column_codes: SideStream<'a>,
    /// The index of the table of each context.
    pub(super) contexts: Vec<u8>,
    pub(super) intervals: Vec<Interval>,
    pub(super) tables: Vec<Frequencies>,
    pub(super) blocks: Vec<Block>,
    pub(super) len_bytes: u64,
}

impl<'a> Head<'a> {
    /// Parses the head at the start of `bytes`, which may end after it, and checks everything
    /// that can be checked without decoding.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes);
        cursor.expect_magic(MAGIC, Rule::FrameMagic, "ZXI1 frame")?;
        cursor.expect_version(VERSION, Rule::FrameVersion, "ZXI1 frame")?;
        let layout = Layout::parse(&mut cursor)?;
        let len_bytes = cursor.u32("length of the head")?.into();
        let stored = cursor.u32("checksum of the head")?;
        let at = cursor.position() as u64;
        let wrong = |detail, at| Error::malformed(Rule::IntervalsHead, detail).at(at);
        if len_bytes < at {
            let detail = format!("a head cannot have {len_bytes} bytes");
            return Err(wrong(detail, CHECKSUM_AT as u64 - 4));
        }
        let head = Cursor::new(bytes).take(len_bytes, "head of the frame")?;
        if !agrees(stored, head_checksum(head, CHECKSUM_AT)) {
            let detail = "the head of the frame does not match its checksum: it is damaged, get \
                          the file again";
            let error = Error::malformed(Rule::IntervalsHeadChecksum, detail);
            return Err(error.at(CHECKSUM_AT as u64));
        }
        let mut cursor = Cursor::new(head);
        cursor.take(at, "fields before")?;
        let [tables, contexts, intervals] = cursor
            .array("numbers of tables, contexts and intervals")?
            .map(|less_one: u8| usize::from(less_one) + 1);
        if tables > MAX_TABLES {
            return Err(wrong(format!("{tables} tables are not 1 to 16"), at));
        }
        let rows = layout.elements.div_ceil(layout.row_elements);
        let row_codes = SideStream::parse(&mut cursor, rows)?;
        let column_codes = SideStream::parse(&mut cursor, layout.row_elements)?;
        let bits = TABLE_BITS as usize * contexts + LENGTH_BITS as usize * intervals;
        let at = cursor.position() as u64;
        let lists = cursor.take(bits.div_ceil(8) as u64, "contexts and intervals")?;
        let mut lists = BitReader::new(lists);
        let in_lists = |error: Error| error.within(at).at(at);
        let contexts = read_contexts(&mut lists, contexts, tables).map_err(in_lists)?;
        let width = 8 * layout.element_bytes;
        let intervals = read_intervals(&mut lists, intervals, width).map_err(in_lists)?;
        let end = lists.finish(Rule::IntervalsHead, "the list of intervals");
        end.map_err(in_lists)?;
        let tables_len = cursor.u16("length of the tables")?;
        let at = cursor.position() as u64;
        let stored = cursor.take(tables_len.into(), "tables")?;
        let tables = read_tables(stored, tables, intervals.len());
        let tables = tables.map_err(|error| error.within(at).at(at))?;
        let mut head = Self {
            layout,
            row_codes,
            column_codes,
            contexts,
            intervals,
            tables,
            blocks: Vec::new(),
            len_bytes,
        };
        head.read_blocks(&mut cursor)?;
        Ok(head)
    }

    fn read_blocks(&mut self, cursor: &mut Cursor) -> Result<()> {
        let Layout {
            states,
            elements,
            block_elements,
            ..
        } = self.layout;
        let at = cursor.position() as u64;
        let count = elements.div_ceil(block_elements.into());
        let list = cursor.take(BLOCK_BYTES * count, "list of blocks")?;
        if cursor.remaining() > 0 {
            let detail = format!("{} bytes follow the list of blocks", cursor.remaining());
            return Err(Error::malformed(Rule::IntervalsHead, detail).at(at));
        }
        let most_raw_bits = self.intervals.iter().map(|i| u64::from(i.length_log)).max();
        let most_raw_bits = most_raw_bits.unwrap_or(0);
        let most = self.tables.iter().map(Frequencies::most).max().unwrap_or(0);
        self.blocks = rans_blocks::read_list(
            (at, list),
            self.len_bytes,
            elements,
            block_elements,
            Rule::IntervalsBlocks,
            |block, elements| {
                let raw = (elements * most_raw_bits).div_ceil(8);
                can_hold(block.rans_len_bytes, states, elements, most)
                    && u64::from(block.raw_len_bytes) <= raw
            },
        )?;
        Ok(())
    }

    /// Returns the length of the frame in bytes.
    pub(super) fn frame_len_bytes(&self) -> u64 {
        let last = self.blocks.last();
        last.map_or(self.len_bytes, |block| block.range().end)
    }
}

/// Returns whether a rANS part of `len_bytes` bytes is long enough for `elements` symbols
/// (docs/formats/zxi1.md 5). `most` is the largest frequency of any symbol. Each state holds 16
/// bits in addition to the words, and a symbol with frequency `f` out of 4096 takes more than
/// `21/16 * (4096 - f) / 4096` bits.
fn can_hold(len_bytes: u32, states: usize, elements: u64, most: u32) -> bool {
    let states_bytes = 4 * states as u64;
    let Some(words_bytes) = u64::from(len_bytes).checked_sub(states_bytes) else {
        return false;
    };
    // None of these products reaches 2^64, as a block has at most 2^20 elements.
    let held = 16 * states as u64 + 8 * words_bytes;
    words_bytes <= 2 * elements
        && elements * u64::from(SLOTS - most) * 21 <= held * u64::from(SLOTS) * 16
}

/// Reads the index of the table of each context.
fn read_contexts(bits: &mut BitReader, count: usize, tables: usize) -> Result<Vec<u8>> {
    let contexts = (0..count).map(|context| {
        let table = bits.take(TABLE_BITS, "table of a context")?;
        match u8::try_from(table) {
            Ok(table) if usize::from(table) < tables => Ok(table),
            _ => {
                let detail = format!("context {context} has table {table} of {tables}");
                Err(Error::malformed(Rule::IntervalsHead, detail))
            }
        }
    });
    contexts.collect()
}

/// Reads the intervals, which must not reach beyond `2^width`.
fn read_intervals(bits: &mut BitReader, count: usize, width: usize) -> Result<Vec<Interval>> {
    let mut next = 0u64;
    let intervals = (0..count).map(|_| {
        let length_log = bits.take(LENGTH_BITS, "length of an interval")?;
        let start = u32::try_from(next);
        next += 1 << length_log;
        match (start, u8::try_from(length_log)) {
            (Ok(start), Ok(length_log)) if next <= 1 << width => Ok(Interval { start, length_log }),
            _ => {
                let detail = format!("an interval reaches beyond 2^{width}");
                Err(Error::malformed(Rule::IntervalsList, detail))
            }
        }
    });
    intervals.collect()
}

/// Reads tables for `symbols` symbols.
fn read_tables(stored: &[u8], count: usize, symbols: usize) -> Result<Vec<Frequencies>> {
    let mut bits = BitReader::new(stored);
    let tables = (0..count).map(|_| {
        let table = Frequencies::read(&mut bits)?;
        let refuse = |detail| Err(Error::malformed(Rule::IntervalsList, detail));
        let last = table.last();
        if usize::from(last) >= symbols {
            return refuse(format!("a table has symbol {last}, of {symbols} intervals"));
        }
        match table.only() {
            Some(symbol) => refuse(format!("a table has only symbol {symbol}")),
            None => Ok(table),
        }
    });
    let tables = tables.collect::<Result<Vec<_>>>()?;
    bits.finish(Rule::InterleavedTable, "the last table")?;
    Ok(tables)
}

/// The fields that an encoder writes.
#[derive(Debug)]
pub(super) struct HeadFields<'a> {
    pub layout: Layout,
    /// The side streams of the rows' and of the columns' codes.
    pub codes: [&'a [u8]; 2],
    pub contexts: &'a [u8],
    pub intervals: &'a [Interval],
    pub tables: &'a [Frequencies],
}

impl HeadFields<'_> {
    /// Returns the bytes of the head, or `None` if a length exceeds its field.
    pub fn write(&self, blocks: &[Block]) -> Option<Vec<u8>> {
        let mut out = MAGIC.to_vec();
        let less_one = |len: usize| u8::try_from(len.checked_sub(1)?).ok();
        let layout = &self.layout;
        let states_log = u8::try_from(layout.states.ilog2()).ok()?;
        let element_bytes = u8::try_from(layout.element_bytes).ok()?;
        out.extend([VERSION, element_bytes, 0, states_log]);
        out.extend_from_slice(&layout.elements.to_le_bytes());
        out.extend_from_slice(&layout.row_elements.to_le_bytes());
        out.extend_from_slice(&layout.block_elements.to_le_bytes());
        out.extend([0; 8]);
        out.push(less_one(self.tables.len())?);
        out.push(less_one(self.contexts.len())?);
        out.push(less_one(self.intervals.len())?);
        out.extend(self.codes.concat());
        let mut bits = BitWriter::new(&mut out);
        for &table in self.contexts {
            bits.put(table.into(), TABLE_BITS);
        }
        for interval in self.intervals {
            bits.put(interval.length_log.into(), LENGTH_BITS);
        }
        bits.finish();
        write_tables_and_list(self.tables, blocks, &mut out)?;
        seal_head(&mut out, CHECKSUM_AT)?;
        Some(out)
    }
}

const _: () = assert!(MAX_TABLES == 1 << TABLE_BITS && SLOT_BITS + TABLE_BITS == u16::BITS);
