//! The encoder's instructions for a frame, which [`crate::frame::select`]
//! decides on: the codecs of each plane, and the payload that each codec
//! produces. A new codec is a variant here that names a method of
//! [`crate::frame::plane::Method`].

use alloc::vec;
use alloc::vec::Vec;

use super::Transform;
use crate::engine::{PackEngine, ZstdCoding};
use crate::entropy::histogram::count;
use crate::entropy::{blocks, rans};
use crate::frame::plane::Method;

/// Instructions for encoding one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// The transform that splits the tensor into planes.
    pub transform: Transform,
    /// The recipe of each plane.
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

/// The codecs to try on one plane. A plane that does not get smaller is stored
/// uncompressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaneRecipe {
    /// Store the plane uncompressed; used for incompressible planes.
    Store,
    /// Code independent zstd blocks, or one frame if the plane is short.
    Blocks(BlockCodecs),
    /// Use the codec with the smallest result. The packer keeps the plane and its
    /// coded form in memory, even if they exceed its memory limit.
    Smallest(&'static [Codec]),
    /// Use the smallest result of the zstd codecs, unless another codec saves
    /// more than a given fraction of the plane. The other codecs are rANS, which
    /// takes several times as long to decode each byte.
    PreferFast {
        /// The codecs to try.
        codecs: &'static [Codec],
        /// A slow codec must save at least 1/n of the plane, where n is this number; 800
        /// means a hundredth of a bit per byte.
        min_gain_divisor: usize,
    },
}

/// The zstd codings that are tried on each block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockCodecs {
    /// Try [`ZstdCoding::Huffman`].
    pub huffman: bool,
    /// Try this search, if any.
    pub search: Option<ZstdCoding>,
    /// Maximum length in bytes of a block if there is a search. Planes that compress so
    /// well that even the coded form of a long block is short have longer blocks.
    pub search_block_bytes: u32,
    /// Search outlier blocks even if `search` is `None`. A block is an outlier if
    /// Huffman coding reduces it to less than this many 256ths of its length, far
    /// less than the rest of the plane. Rows of padding and of unused tokens are
    /// typical.
    pub search_outliers_below: u8,
}

/// A codec for a whole plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// Independent blocks, as in
    /// [`PlaneRecipe::Blocks`](super::PlaneRecipe::Blocks).
    Blocks(BlockCodecs),
    /// One zstd frame.
    Zstd(ZstdCoding),
    /// rANS of order 0 with one table.
    Rans,
    /// rANS of order 0 with a table for every chunk of this many bytes.
    RansAdaptive(u32),
    /// rANS of order 1. Planes of more than `rans::ORDER1_MAX_SYMBOLS` bytes
    /// are skipped.
    RansOrder1,
}

/// Maximum length in bytes of a block without a search.
const HUFFMAN_BLOCK_BYTES: u32 = 256 << 10;
/// The usual value of [`BlockCodecs::search_block_bytes`].
pub const SEARCH_BLOCK_BYTES: u32 = 512 << 10;

/// The number of planes up to which blocks may have these lengths. Elements of ordinary
/// dtypes have at most 8 bytes.
const FULL_BLOCK_PLANES: usize = 16;

/// The maximum length in bytes of a block is not reduced further than to this. In
/// shorter blocks, tables of Huffman codes take more than they gain.
const REDUCED_BLOCK_BYTES: u32 = 32 << 10;

/// The planes that a tensor is split into, as far as the lengths of blocks depend on
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Division {
    /// The number of planes of the tensor.
    pub planes: usize,
    /// The number of parts of equal length that the coded plane consists of.
    pub parts: usize,
}

impl Division {
    /// Returns the maximum length of a block in bytes, if it is `max_bytes` in a tensor
    /// of few planes. Some rows of a tensor take a block of every plane, so blocks of a
    /// tensor of many planes are shorter, by a power of two.
    fn max_block_bytes(self, max_bytes: u32) -> u32 {
        let factor = self.planes.div_ceil(FULL_BLOCK_PLANES).next_power_of_two();
        let reduced = max_bytes >> factor.ilog2().min(u32::BITS - 1);
        reduced.max(REDUCED_BLOCK_BYTES).min(max_bytes)
    }
}

impl BlockCodecs {
    /// Huffman coding only.
    pub const HUFFMAN: Self = Self {
        huffman: true,
        search: None,
        search_block_bytes: SEARCH_BLOCK_BYTES,
        search_outliers_below: 0,
    };

    /// Returns the length in bytes of the independent blocks of a plane whose
    /// parts have `part_bytes` bytes each.
    ///
    /// Reading a few rows of a tensor fetches one block of each plane, so blocks
    /// are as small as possible at a cost of about 0.01 % of size. Blocks with a
    /// search are larger, because matches reach further back than Huffman tables,
    /// which span 128 KiB. Blocks of tensors with many planes are shorter.
    ///
    /// If the parts can be divided into equal blocks, no block crosses from one
    /// part into the next.
    #[must_use]
    pub(super) fn block_bytes(self, division: Division, part_bytes: usize) -> u32 {
        let max_bytes = division.max_block_bytes(match self.search {
            None => HUFFMAN_BLOCK_BYTES,
            Some(_) => self.search_block_bytes,
        });
        if division.parts == 1 {
            return max_bytes;
        }
        let min_count = part_bytes.div_ceil(max_bytes as usize).max(1);
        (min_count..=4 * min_count)
            .find(|count| part_bytes.is_multiple_of(*count))
            .and_then(|count| u32::try_from(part_bytes / count).ok())
            .map_or(max_bytes, |block| block.clamp(1, max_bytes))
    }
}

impl BlockCodecs {
    /// Returns the smallest zstd frame of `raw` among the enabled codings.
    pub(super) fn encode<E: PackEngine>(self, engine: &E, raw: &[u8]) -> Vec<u8> {
        let coded = |coding| {
            let mut frame = Vec::new();
            engine.zstd_encode(raw, coding, &mut frame);
            // Many coded blocks may be queued for writing, so spare capacity is
            // freed.
            frame.shrink_to_fit();
            frame
        };
        let huffman = self.huffman.then(|| coded(ZstdCoding::Huffman));
        let outlier_bytes = raw.len() / 256 * usize::from(self.search_outliers_below);
        let search = match &huffman {
            Some(frame) if frame.len() < outlier_bytes => Some(OUTLIER_CODING),
            _ => self.search,
        };
        let frames = huffman.into_iter().chain(search.map(coded));
        // The first of equal lengths wins: Huffman codes decode faster.
        frames.min_by_key(Vec::len).unwrap_or_default()
    }
}

/// The search for outlier blocks, which compress far better than the rest of
/// their plane.
const OUTLIER_CODING: ZstdCoding = ZstdCoding::Search(3);

impl Codec {
    pub(super) fn is_zstd(self) -> bool {
        matches!(self, Self::Blocks(_) | Self::Zstd(_))
    }

    /// Estimates the length of the payload that [`Self::encode`] returns, to
    /// about one part in a thousand. Returns `None` for codecs whose result does
    /// not follow from byte counts.
    pub(super) fn expected_len_bytes<E: PackEngine>(
        self,
        engine: &E,
        plane: &[u8],
    ) -> Option<usize> {
        match self {
            Self::Rans => Some(rans::shared_len_bytes(&count(plane))),
            Self::RansAdaptive(chunk_bytes) => {
                let counts = rans::chunk_counts(engine, plane, chunk_bytes as usize);
                Some(rans::adaptive_len_bytes(&counts))
            }
            Self::Blocks(_) | Self::Zstd(_) | Self::RansOrder1 => None,
        }
    }

    /// Encodes `plane` and returns its method and payload, or `None` if the
    /// plane is too long for this codec.
    pub(super) fn encode<E: PackEngine>(
        self,
        engine: &E,
        plane: &[u8],
        division: Division,
    ) -> Option<(Method, Vec<u8>)> {
        Some(match self {
            Self::Blocks(codecs) => {
                let block_bytes = codecs.block_bytes(division, plane.len() / division.parts);
                let blocks: Vec<&[u8]> = plane.chunks(block_bytes as usize).collect();
                let coded = engine.map(blocks, |block| codecs.encode(engine, block));
                payload(coded, block_bytes)
            }
            Self::Zstd(coding) => {
                let mut frame = Vec::new();
                engine.zstd_encode(plane, coding, &mut frame);
                (Method::Zstd, frame)
            }
            Self::Rans => (Method::Rans, rans::encode_shared(engine, plane)),
            Self::RansAdaptive(chunk_bytes) => (
                Method::RansAdaptive,
                rans::encode_adaptive(engine, plane, chunk_bytes as usize),
            ),
            Self::RansOrder1 if plane.len() as u64 <= rans::ORDER1_MAX_SYMBOLS => {
                (Method::RansOrder1, rans::encode_order1(engine, plane))
            }
            Self::RansOrder1 => return None,
        })
    }
}

/// Joins coded blocks into the payload of a plane. A single block needs no
/// table.
fn payload(coded: Vec<Vec<u8>>, block_bytes: u32) -> (Method, Vec<u8>) {
    match <[Vec<u8>; 1]>::try_from(coded) {
        Ok([only]) => (Method::Zstd, only),
        Err(coded) => {
            let mut out = blocks::table_of(block_bytes, &coded);
            for block in &coded {
                out.extend_from_slice(block);
            }
            (Method::Blocks, out)
        }
    }
}
