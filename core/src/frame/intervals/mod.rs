//! Frame `ZXI1` (docs/formats/zxi1.md): the numbers of a tensor are divided into intervals.
//! The interval of each element is coded by rANS with a table for its row and column, its
//! place in the interval is stored.

use alloc::format;
use core::ops::Range;

use crate::bytes::part;
use crate::engine::Engine;
use crate::frame::family::{Extras, FrameFamily, FrameInfo, body_len};
use crate::{Error, Result, Rule};

mod decode;
mod encode;
mod head;

pub use super::rans_blocks::is_block_len;
pub use decode::Codes;
pub use encode::encode;
pub use head::{Head, is_element_len};

use super::rans_blocks::Block;

pub(super) const MAGIC: &[u8] = b"ZXI1";
const VERSION: u8 = 1;

/// A parsed frame whose fields are consistent.
#[derive(Debug, Clone)]
pub struct Frame<'a> {
    head: Head<'a>,
    bytes: &'a [u8],
    info: FrameInfo<'a>,
}

impl<'a> FrameFamily<'a> for Frame<'a> {
    /// The codes of rows and columns, and the tables.
    type Streams = Codes;

    fn parse(bytes: &'a [u8]) -> Result<Self> {
        let head = Head::parse(bytes)?;
        let stored_len = head.frame_len_bytes();
        let held = bytes.len() as u64;
        if stored_len > held {
            let detail = format!("a ZXI1 frame of {stored_len} bytes in {held}");
            return Err(Error::malformed(Rule::Truncated, detail).at(held));
        }
        let bytes = part(bytes, 0..stored_len);
        Ok(Self {
            info: FrameInfo::new(Extras::NONE, bytes.len(), head.decoded_len_bytes()?)?,
            head,
            bytes,
        })
    }

    fn info(&self) -> &FrameInfo<'a> {
        &self.info
    }

    fn streams<E: Engine>(&self, _: &E) -> Result<Codes> {
        Codes::new(&self.head)
    }

    fn join<E: Engine>(&self, engine: &E, codes: Codes, body: &mut [u8]) -> Result<()> {
        codes.decode(engine, &self.head, 0, (0, self.bytes), body)
    }
}

impl<'a> Frame<'a> {
    /// Returns the head.
    #[must_use]
    pub fn head(&self) -> &Head<'a> {
        &self.head
    }

    /// Compares every block with its checksum.
    pub fn check_blocks(&self) -> Result<()> {
        let mut blocks = self.head.blocks.iter().enumerate();
        blocks.try_for_each(|(number, block)| {
            let stored = part(self.bytes, block.range());
            block.check(number, stored, Rule::IntervalsBlockChecksum)
        })
    }
}

impl Head<'_> {
    /// Returns the length of the head in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Returns the length of the decoded tensor in bytes.
    pub fn decoded_len_bytes(&self) -> Result<u64> {
        body_len(self.layout.elements, self.layout.element_bytes as u64)
    }

    /// Returns the number of bytes of an element.
    #[must_use]
    pub fn element_bytes(&self) -> usize {
        self.layout.element_bytes
    }

    /// Returns the number of elements of a block.
    #[must_use]
    pub fn block_elements(&self) -> u32 {
        self.layout.block_elements
    }

    /// Returns the range of each block in the frame.
    pub fn blocks(&self) -> impl Iterator<Item = Range<u64>> {
        self.blocks.iter().map(Block::range)
    }

    /// Decodes the elements that fill `out` from `stored`, the bytes of the blocks that hold
    /// them. The first one is block `first`, whose first element is the first one of `out`.
    /// Every block is first compared with its checksum. If a block is decoded only in part,
    /// the end of its streams is not checked.
    ///
    /// # Panics
    /// If `stored` ends before the last element.
    pub fn decode<E: Engine>(
        &self,
        engine: &E,
        first: usize,
        stored: &[u8],
        out: &mut [u8],
    ) -> Result<()> {
        let at = self.blocks.get(first).map_or(0, |block| block.start);
        Codes::new(self)?.decode(engine, self, first, (at, stored), out)
    }
}
