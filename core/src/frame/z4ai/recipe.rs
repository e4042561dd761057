//! What an encoder has been told to do. Who decides is another matter
//! ([`crate::frame::select`]).

use alloc::vec;
use alloc::vec::Vec;

use super::Transform;
use crate::engine::ZstdCoding;

/// What to do with one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// How it is cut.
    pub transform: Transform,
    /// One entry per plane.
    pub planes: Vec<PlaneRecipe>,
}

impl Recipe {
    /// The tensor as it is.
    #[must_use]
    pub fn stored() -> Self {
        Self {
            transform: Transform::Opaque,
            planes: vec![PlaneRecipe::Store],
        }
    }
}

/// What to try on one plane. A plane that does not get smaller is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaneRecipe {
    /// Noise: not worth trying.
    Store,
    /// Independent zstd blocks, one frame if the plane is short.
    Blocks(ZstdWays),
    /// Huffman codes, or rANS where counts say that it gains more than one in
    /// so many parts of the plane on them.
    HuffmanOrRans {
        /// 240 asks for a thirtieth of a bit for each byte.
        gain_parts: usize,
    },
    /// The smallest of these. The packer holds the plane and its coded form
    /// in memory, whatever it has been allowed.
    Smallest(&'static [Way]),
    /// The smallest of those that make zstd frames, or of the others where
    /// that is smaller by more than one in `parts` of the plane: rANS takes
    /// several times as long for each of its bytes.
    FastFirst {
        /// What is tried.
        ways: &'static [Way],
        /// 800 asks for a hundredth of a bit for each byte.
        parts: usize,
    },
}

/// The ways to make a zstd frame that are tried, block by block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZstdWays {
    /// Try [`ZstdCoding::Huffman`].
    pub huffman: bool,
    /// And this search.
    pub search: Option<ZstdCoding>,
    /// Search in wide blocks: for planes of which so little is left that one
    /// is still short once it is coded.
    pub wide: bool,
    /// Without a search: try one on blocks of which Huffman codes leave less
    /// than so many parts of 256, far below what they leave of the plane.
    /// Rows of padding and unused tokens are such.
    pub odd_below: u8,
}

/// A way to code a plane as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// As [`PlaneRecipe::Blocks`].
    Blocks(ZstdWays),
    /// One zstd frame.
    Zstd(ZstdCoding),
    /// rANS of order 0 with one table.
    Rans,
    /// rANS of order 0 with a table for every chunk of so many bytes.
    RansAdaptive(u32),
    /// rANS of order 1. Planes of 4 GiB and more are passed over.
    RansOrder1,
}

const HUFFMAN_BLOCK_BYTES: u32 = 256 << 10;
const SEARCH_BLOCK_BYTES: u32 = 512 << 10;
const WIDE_BLOCK_BYTES: u32 = 8 << 20;

impl ZstdWays {
    /// Huffman codes and nothing else.
    pub const HUFFMAN: Self = Self {
        huffman: true,
        search: None,
        wide: false,
        odd_below: 0,
    };

    /// Bytes of an independent block of a plane of `parts` parts of
    /// `part_bytes` each. Whoever reads some rows of a tensor fetches a block
    /// of each plane, so that blocks are as small as costs at most a hundredth
    /// of a percent (docs/benchmarks.md): matches reach further back than
    /// Huffman tables, which span 128 KiB.
    ///
    /// Unlike parts are kept in blocks of their own where they can be cut into
    /// equal ones.
    #[must_use]
    pub fn block_bytes(self, parts: usize, part_bytes: usize) -> u32 {
        let most: u32 = match (self.search, self.wide) {
            (None, _) => HUFFMAN_BLOCK_BYTES,
            (Some(_), false) => SEARCH_BLOCK_BYTES,
            (Some(_), true) => WIDE_BLOCK_BYTES,
        };
        if parts == 1 {
            return most;
        }
        let fewest = part_bytes.div_ceil(most as usize).max(1);
        (fewest..=4 * fewest)
            .find(|count| part_bytes.is_multiple_of(*count))
            .and_then(|count| u32::try_from(part_bytes / count).ok())
            .map_or(most, |block| block.clamp(1, most))
    }
}
