//! What an encoder has been told to do. Who decides is another matter
//! ([`crate::frame::select`]).

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

/// What to try on one plane. A plane that does not get smaller is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaneRecipe {
    /// Noise: not worth trying.
    Store,
    /// zstd, coded in the ways that are given; the smallest result wins,
    /// block by block.
    Zstd {
        /// [`ZstdCoding::Huffman`], or not at all.
        huffman: Option<ZstdCoding>,
        /// [`ZstdCoding::Search`], or not at all.
        search: Option<ZstdCoding>,
    },
    /// rANS of order 0 with a table per chunk, for planes of up to
    /// [`RANS_MOST_BYTES`].
    Rans,
}

/// Longest plane coded with rANS, in bytes: it is coded as a whole, so the
/// packer must hold it.
pub const RANS_MOST_BYTES: usize = 1 << 25;

impl PlaneRecipe {
    /// Bytes of an independent block. Huffman tables span at most 128 KiB, so
    /// small blocks cost nothing there; matches reach further back; a range
    /// coder makes one block of a plane.
    #[must_use]
    pub fn block_bytes(self) -> u32 {
        match self {
            Self::Store | Self::Zstd { search: None, .. } => 1 << 20,
            Self::Zstd { .. } => 1 << 23,
            Self::Rans => 1 << 25,
        }
    }
}
