//! Decodes the elements of blocks (docs/formats/zxi1.md 5).

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::head::{Head, Interval, MAX_CONTEXTS, MAX_INTERVALS};
use crate::bytes::{index, part};
use crate::engine::Engine;
use crate::entropy::interleaved::{DecodeTables, Decoder, SLOT_BITS};
use crate::frame::rans_blocks::{Block, check_raw_end};
use crate::{Result, Rule};

/// Number of elements that each step processes. It is small enough for the first-level
/// cache, and a multiple of the number of states.
const PART_ELEMENTS: usize = 1024;

/// The codes, tables and intervals that decoding a block requires.
#[derive(Debug, Clone)]
pub struct Codes {
    rows: Vec<u8>,
    /// The codes of the columns; empty if all are 0.
    columns: Vec<u8>,
    /// The choice of each sum of a row's and a column's code: the index of the table in the
    /// top four bits.
    choices: Box<[u16; 2 * MAX_CONTEXTS]>,
    tables: DecodeTables,
    joins: Joins,
}

impl Codes {
    pub(super) fn new(head: &Head) -> Result<Self> {
        let last = head.contexts.len() - 1;
        let choice = |sum: usize| u16::from(head.contexts[sum.min(last)]) << SLOT_BITS;
        let mut columns = head.column_codes.decode()?;
        if columns.iter().all(|&code| code == 0) {
            columns = Vec::new();
        }
        Ok(Self {
            rows: head.row_codes.decode()?,
            columns,
            choices: Box::new(core::array::from_fn(choice)),
            tables: DecodeTables::new(&head.tables),
            joins: Joins::new(&head.intervals),
        })
    }

    /// Decodes the elements that fill `out`, beginning with those of block `first`.
    /// `stored` are the bytes of the frame from offset `stored_at` on.
    pub(super) fn decode<E: Engine>(
        &self,
        engine: &E,
        head: &Head,
        first: usize,
        (stored_at, stored): (u64, &[u8]),
        out: &mut [u8],
    ) -> Result<()> {
        let width = head.layout.element_bytes;
        let block_elements = index(head.layout.block_elements.into());
        let blocks = &head.blocks[first..];
        let jobs = (first..)
            .zip(blocks)
            .zip(out.chunks_mut(block_elements * width));
        let results = engine.map(jobs.collect(), |((number, block), out)| {
            let range = block.range();
            let stored = part(stored, range.start - stored_at..range.end - stored_at);
            block.check(number, stored, Rule::IntervalsBlockChecksum)?;
            let first_element = number as u64 * u64::from(head.layout.block_elements);
            let whole = head.layout.elements - first_element;
            let is_whole = out.len() as u64 == whole.min(block_elements as u64) * width as u64;
            let job = BlockJob {
                codes: self,
                head,
                block,
                stored,
                first_element,
                is_whole,
            };
            let done = match width {
                1 => job.decode::<u8>(out),
                2 => job.decode::<u16>(out),
                _ => job.decode::<u32>(out),
            };
            done.map_err(|error| error.within(block.start))
        });
        results.into_iter().collect()
    }

    /// Writes the choices of the elements that begin with element `first`.
    #[inline(always)]
    fn fill(&self, first: u64, row_elements: u64, choices: &mut [u16]) {
        let mut row = index(first / row_elements);
        let mut column = index(first % row_elements);
        let mut left = choices;
        while !left.is_empty() {
            let in_row = row_elements - column as u64;
            let len = usize::try_from(in_row).map_or(left.len(), |len| len.min(left.len()));
            let (now, after) = left.split_at_mut(len);
            let code = usize::from(self.rows[row]);
            match self.columns.get(column..column + len) {
                Some(columns) => {
                    for (choice, &column) in now.iter_mut().zip(columns) {
                        *choice = self.choices[code + usize::from(column)];
                    }
                }
                None => now.fill(self.choices[code]),
            }
            left = after;
            row += 1;
            column = 0;
        }
    }
}

/// A block to decode.
struct BlockJob<'a> {
    codes: &'a Codes,
    head: &'a Head<'a>,
    block: &'a Block,
    stored: &'a [u8],
    first_element: u64,
    /// True if the block is decoded completely, so that its end can be checked.
    is_whole: bool,
}

impl BlockJob<'_> {
    fn decode<W: Word>(&self, out: &mut [u8]) -> Result<()> {
        let layout = &self.head.layout;
        let [rans, raw] = self.block.split(self.stored);
        let mut decoder = Decoder::new(rans, layout.states)?;
        let mut raw = RawBits::new(raw);
        let mut choices = [0; PART_ELEMENTS];
        let mut symbols = [0; PART_ELEMENTS];
        let mut first = self.first_element;
        for out in out.chunks_mut(PART_ELEMENTS * size_of::<W>()) {
            let len = out.len() / size_of::<W>();
            let (choices, symbols) = (&mut choices[..len], &mut symbols[..len]);
            self.codes.fill(first, layout.row_elements, choices);
            decoder.decode(&self.codes.tables, choices, symbols);
            raw.join::<W>(&self.codes.joins, symbols, out);
            first += len as u64;
        }
        match self.is_whole {
            true => decoder.finish().and_then(|()| raw.finish()),
            false => Ok(()),
        }
    }
}

/// An element as an integer.
trait Word: Copy {
    /// Writes the bits of the element whose rotated bits are the low ones of `rotated`.
    fn put(rotated: u32, out: &mut [u8]);
}

macro_rules! word {
    ($type:ty) => {
        impl Word for $type {
            #[inline(always)]
            #[allow(clippy::cast_possible_truncation)] // the low bits
            fn put(rotated: u32, out: &mut [u8]) {
                out.copy_from_slice(&(rotated as $type).rotate_right(1).to_le_bytes());
            }
        }
    };
}
word!(u8);
word!(u16);
word!(u32);

/// [`RawBits::join`] with instructions that shift by any number of bits at once.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn join_wide<W: Word>(raw: &mut RawBits, joins: &Joins, symbols: &[u8], out: &mut [u8]) {
    raw.join_any::<W>(joins, symbols, out);
}

/// The start and the number of raw bits of each interval.
#[derive(Debug, Clone)]
struct Joins {
    entries: Box<[u64; MAX_INTERVALS]>,
    /// The number of elements whose raw bits always fit a window of 57 bits.
    together: usize,
}

/// The position of the number of raw bits in an entry, above the start.
const LEN_AT: u32 = 32;
const WINDOW_BITS: u32 = 57;

impl Joins {
    fn new(intervals: &[Interval]) -> Self {
        let mut entries = Box::new([0; MAX_INTERVALS]);
        for (entry, interval) in entries.iter_mut().zip(intervals) {
            *entry = u64::from(interval.start) | u64::from(interval.length_log) << LEN_AT;
        }
        let most = intervals.iter().map(|i| u32::from(i.length_log)).max();
        let together = WINDOW_BITS / most.unwrap_or(0).max(1);
        Self {
            entries,
            together: index(together.into()),
        }
    }
}

/// A reader of the raw bits of a block.
struct RawBits {
    /// The raw bits, followed by eight zeros.
    padded: Vec<u8>,
    position_bits: u64,
}

const PADDING: usize = 8;

impl RawBits {
    fn new(raw: &[u8]) -> Self {
        let mut padded = vec![0; raw.len() + PADDING];
        padded[..raw.len()].copy_from_slice(raw);
        Self {
            padded,
            position_bits: 0,
        }
    }

    /// Writes the elements with these symbols to `out`.
    fn join<W: Word>(&mut self, joins: &Joins, symbols: &[u8], out: &mut [u8]) {
        #[cfg(target_arch = "x86_64")]
        crate::avx2::call!(join_wide::<W>, self, joins, symbols, out; else {
            self.join_any::<W>(joins, symbols, out);
        });
        #[cfg(not(target_arch = "x86_64"))]
        self.join_any::<W>(joins, symbols, out);
    }

    #[inline(always)]
    fn join_any<W: Word>(&mut self, joins: &Joins, symbols: &[u8], out: &mut [u8]) {
        match joins.together {
            8.. => self.join_by::<W, 8>(joins, symbols, out),
            4..8 => self.join_by::<W, 4>(joins, symbols, out),
            2..4 => self.join_by::<W, 2>(joins, symbols, out),
            _ => self.join_by::<W, 1>(joins, symbols, out),
        }
    }

    /// Joins like [`RawBits::join`], reading the raw bits of `N` elements at once.
    #[inline(always)]
    fn join_by<W: Word, const N: usize>(&mut self, joins: &Joins, symbols: &[u8], out: &mut [u8]) {
        let (together, rest) = symbols.as_chunks::<N>();
        let (outs, out_rest) = out.split_at_mut(together.len() * N * size_of::<W>());
        for (symbols, out) in together
            .iter()
            .zip(outs.chunks_exact_mut(N * size_of::<W>()))
        {
            self.join_window::<W>(joins, symbols, out);
        }
        self.join_window::<W>(joins, rest, out_rest);
    }

    /// Joins elements whose raw bits fit a window.
    #[inline(always)]
    fn join_window<W: Word>(&mut self, joins: &Joins, symbols: &[u8], out: &mut [u8]) {
        let mut word = self.window() >> (self.position_bits % 8);
        for (&symbol, out) in symbols.iter().zip(out.chunks_exact_mut(size_of::<W>())) {
            let entry = joins.entries[usize::from(symbol)];
            let len = entry >> LEN_AT;
            #[allow(clippy::cast_possible_truncation)] // the low half
            let rotated = (entry as u32).wrapping_add((word & !(u64::MAX << len)) as u32);
            W::put(rotated, out);
            word >>= len;
            self.position_bits += len;
        }
    }

    /// Returns the eight bytes from that of the next bit on; zeros after the end.
    #[inline(always)]
    #[allow(clippy::cast_possible_truncation)] // a block has far fewer than 2^32 bytes
    fn window(&self) -> u64 {
        let window = self.padded.get((self.position_bits / 8) as usize..);
        let window = window.and_then(|window| window.first_chunk());
        window.map_or(0, |window| u64::from_le_bytes(*window))
    }

    /// Checks that all bytes have been used.
    fn finish(&self) -> Result<()> {
        let raw = &self.padded[..self.padded.len() - PADDING];
        check_raw_end(raw, self.position_bits, Rule::IntervalsRawBits)
    }
}
