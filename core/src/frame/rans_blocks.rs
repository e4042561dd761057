//! Blocks of elements: interleaved rANS symbols followed by raw bits (docs/formats/zxd1.md
//! 10, docs/formats/zxi1.md 5). The head of a frame has the tables of the symbols and the list
//! of blocks.

use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

use crate::bytes::{Cursor, index};
use crate::checksum::{agrees, short_checksum};
use crate::entropy::bits::BitWriter;
use crate::entropy::interleaved::Frequencies;
use crate::{Error, Result, Rule};

/// Length in bytes of an entry of the list of blocks.
pub(crate) const BLOCK_BYTES: u64 = 12;

const MIN_BLOCK_ELEMENTS: u32 = 1 << 12;
const MAX_BLOCK_ELEMENTS: u32 = 1 << 20;
const BLOCK_MULTIPLE: u32 = 32;

/// Returns whether blocks may have this number of elements.
#[must_use]
pub fn is_block_len(elements: u32) -> bool {
    (MIN_BLOCK_ELEMENTS..=MAX_BLOCK_ELEMENTS).contains(&elements)
        && elements.is_multiple_of(BLOCK_MULTIPLE)
}

/// The position, lengths and checksum of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    /// Offset of the block in the frame.
    pub start: u64,
    pub rans_len_bytes: u32,
    pub raw_len_bytes: u32,
    pub checksum: u32,
}

impl Block {
    /// Joins the two parts of a block. Returns its description, whose `start` is not set, and
    /// its bytes.
    pub fn join(mut rans: Vec<u8>, raw: &[u8]) -> (Self, Vec<u8>) {
        let block = Self {
            start: 0,
            rans_len_bytes: u32::try_from(rans.len()).unwrap_or(u32::MAX),
            raw_len_bytes: u32::try_from(raw.len()).unwrap_or(u32::MAX),
            checksum: short_checksum([rans.as_slice(), raw]),
        };
        rans.extend_from_slice(raw);
        (block, rans)
    }

    /// Returns the range of the block in the frame.
    pub fn range(&self) -> Range<u64> {
        let len = u64::from(self.rans_len_bytes) + u64::from(self.raw_len_bytes);
        self.start..self.start + len
    }

    /// Compares the bytes of block `number` with their checksum. A mismatch is a violation of
    /// `rule`.
    pub fn check(&self, number: usize, stored: &[u8], rule: Rule) -> Result<()> {
        if agrees(self.checksum, short_checksum([stored])) {
            return Ok(());
        }
        let detail = format!(
            "block {number} of the frame does not match its checksum: it is damaged, get the \
             file again"
        );
        Err(Error::malformed(rule, detail).at(self.start))
    }

    /// Divides the bytes of the block into the rANS part and the raw bits.
    ///
    /// # Panics
    /// If `stored` is shorter than the rANS part.
    pub fn split<'a>(&self, stored: &'a [u8]) -> [&'a [u8]; 2] {
        stored.split_at(index(self.rans_len_bytes.into())).into()
    }
}

/// Reads the list of the blocks of `elements` elements. `list` has [`BLOCK_BYTES`] for each
/// block and is at offset `at` of the frame, and the first block is at offset `start`. A block
/// whose lengths do not fit its number of elements by `fits` is a violation of `rule`.
pub(crate) fn read_list(
    (at, list): (u64, &[u8]),
    start: u64,
    elements: u64,
    block_elements: u32,
    rule: Rule,
    fits: impl Fn(&Block, u64) -> bool,
) -> Result<Vec<Block>> {
    let block_elements = u64::from(block_elements);
    let count = elements.div_ceil(block_elements);
    let mut list = Cursor::new(list);
    let mut blocks = Vec::with_capacity(index(count));
    let mut start = start;
    for number in 0..count {
        let block = Block {
            start,
            rans_len_bytes: list.u32("length of a rANS part")?,
            raw_len_bytes: list.u32("length of raw bits")?,
            checksum: list.u32("checksum of a block")?,
        };
        let elements = block_elements.min(elements - number * block_elements);
        if !fits(&block, elements) {
            let detail = format!(
                "block {number} has {} bytes of rANS and {} of raw bits for {elements} elements",
                block.rans_len_bytes, block.raw_len_bytes
            );
            return Err(Error::malformed(rule, detail).at(at + BLOCK_BYTES * number));
        }
        start = block.range().end;
        blocks.push(block);
    }
    Ok(blocks)
}

/// Checks that the raw bits of a block end with its last element, `used_bits` bits after their
/// start. Anything else is a violation of `rule`.
pub(crate) fn check_raw_end(raw: &[u8], used_bits: u64, rule: Rule) -> Result<()> {
    let wrong = |detail| Err(Error::malformed(rule, detail));
    let used_bytes = used_bits.div_ceil(8);
    if used_bytes > raw.len() as u64 {
        return wrong("the raw bits of a block end before its last element");
    }
    if used_bytes < raw.len() as u64 {
        return wrong("raw bits are left after the last element of a block");
    }
    // The number of used bits in the last byte, or 0 if the bits end at a byte boundary.
    let in_last = used_bits % 8;
    match raw.last() {
        Some(last) if in_last > 0 && last >> in_last != 0 => {
            wrong("the padding of the raw bits of a block is not zero")
        }
        _ => Ok(()),
    }
}

/// Appends the end of a head: the tables with their length, and the list of blocks. Returns
/// `None` if the tables are too long.
pub(crate) fn write_tables_and_list(
    tables: &[Frequencies],
    blocks: &[Block],
    out: &mut Vec<u8>,
) -> Option<()> {
    let mut coded = Vec::new();
    let mut bits = BitWriter::new(&mut coded);
    for table in tables {
        table.write(&mut bits);
    }
    bits.finish();
    out.extend_from_slice(&u16::try_from(coded.len()).ok()?.to_le_bytes());
    out.extend_from_slice(&coded);
    for block in blocks {
        for field in [block.rans_len_bytes, block.raw_len_bytes, block.checksum] {
            out.extend_from_slice(&field.to_le_bytes());
        }
    }
    Some(())
}

/// Returns the checksum of a head, which covers everything but the four bytes of itself at
/// offset `at`.
pub(crate) fn head_checksum(head: &[u8], at: usize) -> u32 {
    let (before, rest) = head.split_at(at.min(head.len()));
    short_checksum([before, rest.get(4..).unwrap_or(&[])])
}

/// Writes the checksum of a complete head to offset `at`, and the length of the head to the
/// four bytes before. Returns `None` if the head is too long.
pub(crate) fn seal_head(head: &mut [u8], at: usize) -> Option<()> {
    let len_bytes = u32::try_from(head.len()).ok()?;
    head[at - 4..at].copy_from_slice(&len_bytes.to_le_bytes());
    let checksum = head_checksum(head, at);
    head[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
    Some(())
}
