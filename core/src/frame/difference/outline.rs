//! The parts of a frame that a decoder outside of this crate requires.

use alloc::vec::Vec;
use core::ops::Range;

use super::Difference;
use super::context::CONTEXTS;
use super::directory::check_block;
use super::head::DifferenceHead;
use crate::Result;
use crate::bytes::part;
use crate::entropy::interleaved::{Frequencies, SLOT_BITS};
use crate::float::FloatType;

/// A parsed frame whose elements are predicted by the base alone.
pub(crate) struct Outline<'a> {
    head: &'a DifferenceHead<'a>,
    bytes: &'a [u8],
}

impl<'a> Difference<'a> {
    /// Returns the parts of the frame, or `None` if its predictions include a product of
    /// two matrices (docs/formats/zxd1.md 13).
    pub(crate) fn outline(&self) -> Option<Outline<'_>> {
        let outline = Outline {
            head: &self.head,
            bytes: self.bytes,
        };
        self.head.low_rank.is_none().then_some(outline)
    }
}

impl<'a> Outline<'a> {
    pub fn element(&self) -> FloatType {
        self.head.element
    }

    /// Returns the number of rANS states of a block.
    pub fn states(&self) -> usize {
        self.head.states
    }

    pub fn elements(&self) -> u64 {
        self.head.elements
    }

    pub fn group_elements(&self) -> u64 {
        self.head.group_elements
    }

    pub fn block_elements(&self) -> u32 {
        self.head.block_elements
    }

    /// Returns the number of groups.
    pub fn groups(&self) -> u64 {
        self.head.elements.div_ceil(self.head.group_elements)
    }

    /// Decodes the code of each group. The caller must have limited [`Outline::groups`].
    pub fn codes(&self) -> Result<Vec<u8>> {
        self.head.codes.decode()
    }

    /// Returns the expected difference for each value of the top six mantissa bits.
    pub fn means(&self) -> Option<&'a [i32; 64]> {
        self.head.means.as_deref()
    }

    /// Returns the coding of every context: the index of the table in the top four bits,
    /// the shift in the low bits.
    pub fn choices(&self) -> [u16; CONTEXTS] {
        core::array::from_fn(|context| {
            let coding = self.head.coding(context);
            u16::from(coding.table) << SLOT_BITS | u16::from(coding.shift)
        })
    }

    pub fn tables(&self) -> &'a [Frequencies] {
        &self.head.tables
    }

    /// Returns the number of blocks.
    pub fn block_count(&self) -> usize {
        self.head.blocks.len()
    }

    /// Compares every block with its checksum, and returns the ranges of its rANS part and
    /// of its raw bits in the frame.
    pub fn blocks(&self) -> impl Iterator<Item = Result<(Range<u64>, Range<u64>)>> + use<'a> {
        let bytes = self.bytes;
        self.head
            .blocks
            .iter()
            .enumerate()
            .map(move |(number, block)| {
                let range = block.range();
                let middle = range.start + u64::from(block.rans_len_bytes);
                let (rans, raw) = (range.start..middle, middle..range.end);
                let stored = [part(bytes, rans.clone()), part(bytes, raw.clone())];
                check_block(number, block, stored)?;
                Ok((rans, raw))
            })
    }
}
