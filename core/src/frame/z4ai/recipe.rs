//! Instructions to an encoder. [`crate::frame::select`] decides what they are.

use alloc::vec;
use alloc::vec::Vec;

use super::Transform;
use crate::engine::ZstdCoding;

/// How to encode one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// How the tensor is split into planes.
    pub transform: Transform,
    /// One entry per plane.
    pub planes: Vec<PlaneRecipe>,
}

impl Recipe {
    /// Stores the tensor as one uncompressed plane.
    #[must_use]
    pub fn stored() -> Self {
        Self {
            transform: Transform::Opaque,
            planes: vec![PlaneRecipe::Store],
        }
    }
}

/// What to try on one plane. A plane that does not get smaller is stored
/// uncompressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaneRecipe {
    /// Store the plane uncompressed; used for noise.
    Store,
    /// Code independent zstd blocks, or one frame if the plane is short.
    Blocks(BlockCodecs),
    /// Use Huffman codes, or rANS if byte counts show that it is smaller by more
    /// than a given share of the plane.
    HuffmanOrRans {
        /// The least gain of rANS is 1/n of the plane; 240 asks for a thirtieth
        /// of a bit for each byte.
        min_gain_divisor: usize,
    },
    /// Use the codec with the smallest result. The packer holds the plane and
    /// its coded form in memory, whatever its limit.
    Smallest(&'static [Codec]),
    /// Use the smallest of the codecs that make zstd frames, unless another codec
    /// is smaller by more than a given share of the plane. The others are rANS,
    /// which takes several times as long to decode each byte.
    PreferFast {
        /// The codecs to try.
        codecs: &'static [Codec],
        /// The least gain of a slow codec is 1/n of the plane; 800 asks for a
        /// hundredth of a bit for each byte.
        min_gain_divisor: usize,
    },
}

/// The zstd codings that are tried on each block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockCodecs {
    /// Try [`ZstdCoding::Huffman`].
    pub huffman: bool,
    /// Try this search.
    pub search: Option<ZstdCoding>,
    /// Search in wide blocks: for planes that compress so well that a wide block
    /// is still short once it is coded.
    pub wide: bool,
    /// Search outlier blocks even where `search` is `None`: those that Huffman
    /// codes reduce to less than this many 256ths, far less than the rest of the
    /// plane. Rows of padding and unused tokens are typical.
    pub search_outliers_below: u8,
}

/// A codec for a whole plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// The same as [`PlaneRecipe::Blocks`].
    Blocks(BlockCodecs),
    /// One zstd frame.
    Zstd(ZstdCoding),
    /// rANS of order 0 with one table.
    Rans,
    /// rANS of order 0 with a table for every chunk of this many bytes.
    RansAdaptive(u32),
    /// rANS of order 1. Planes of 4 GiB and more are skipped.
    RansOrder1,
}

/// Block sizes without a search, with one, and with one in wide blocks.
const HUFFMAN_BLOCK_BYTES: u32 = 256 << 10;
const SEARCH_BLOCK_BYTES: u32 = 512 << 10;
const WIDE_BLOCK_BYTES: u32 = 8 << 20;

impl BlockCodecs {
    /// Huffman codes alone.
    pub const HUFFMAN: Self = Self {
        huffman: true,
        search: None,
        wide: false,
        search_outliers_below: 0,
    };

    /// Returns the bytes of an independent block of a plane that has `parts`
    /// parts of `part_bytes` each.
    ///
    /// A reader of a few rows of a tensor fetches one block of each plane, so
    /// blocks are as small as they can be at a cost of about a hundredth of a
    /// percent ("Blocks for reading rows" in `docs/benchmarks.md`). Blocks with a
    /// search are larger, because matches reach further back than Huffman
    /// tables, which span 128 KiB.
    ///
    /// Blocks do not cross from one part into the next if the parts can be
    /// divided into equal blocks.
    #[must_use]
    pub fn block_bytes(self, parts: usize, part_bytes: usize) -> u32 {
        let max_bytes: u32 = match (self.search, self.wide) {
            (None, _) => HUFFMAN_BLOCK_BYTES,
            (Some(_), false) => SEARCH_BLOCK_BYTES,
            (Some(_), true) => WIDE_BLOCK_BYTES,
        };
        if parts == 1 {
            return max_bytes;
        }
        let min_count = part_bytes.div_ceil(max_bytes as usize).max(1);
        (min_count..=4 * min_count)
            .find(|count| part_bytes.is_multiple_of(*count))
            .and_then(|count| u32::try_from(part_bytes / count).ok())
            .map_or(max_bytes, |block| block.clamp(1, max_bytes))
    }
}
