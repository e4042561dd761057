//! Jobs of sparse tensors: the place of a value depends on the number of values before it.
//! They are counted in every tile, added up, and then the tiles are written.

use zerocopy::{Immutable, IntoBytes, KnownLayout};
use zstn_core::frame::plan::JoinedTensor;

use super::{Jobs, MAX_TILE_ELEMENTS, PLANE_ALIGN};

/// Consecutive elements of a sparse tensor that one block of threads counts, and another
/// one writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SparseTile {
    /// The first element, a multiple of [`MAX_TILE_ELEMENTS`].
    pub first: u64,
    /// Offset in the scratch buffer of a number of eight bytes: how many values the tile
    /// has, then how many all tiles before it have.
    pub before: u64,
    /// Number of elements, at most [`MAX_TILE_ELEMENTS`].
    pub count: u32,
    /// Index of the tensor.
    pub tensor: u32,
}

/// A sparse tensor, whose counts one block of threads adds up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SparseSum {
    /// Offset in the scratch buffer of the number of the first tile, which the numbers of
    /// the other tiles follow.
    pub before: u64,
    /// Number of tiles.
    pub tiles: u64,
    /// Index of the tensor.
    pub tensor: u32,
    /// Always 0.
    pub reserved: u32,
}

/// The length in bytes of the number of a tile.
const COUNT_BYTES: u64 = 8;

impl Jobs {
    /// Adds the tiles of a sparse tensor, and reserves the scratch buffer for their
    /// numbers.
    pub(super) fn add_sparse(&mut self, number: u32, tensor: &JoinedTensor) {
        let tile_elements = u64::from(MAX_TILE_ELEMENTS);
        let tiles = tensor.elements.div_ceil(tile_elements);
        let before = self.scratch_len_bytes;
        // The bitmap, which the plan has added up, has 512 times the length of the numbers.
        self.scratch_len_bytes += (COUNT_BYTES * tiles).next_multiple_of(PLANE_ALIGN);
        self.sparse_sums.push(SparseSum {
            before,
            tiles,
            tensor: number,
            reserved: 0,
        });
        self.sparse.extend((0..tiles).map(|tile| {
            let first = tile * tile_elements;
            let left = u32::try_from(tensor.elements - first).unwrap_or(u32::MAX);
            SparseTile {
                first,
                before: before + COUNT_BYTES * tile,
                count: left.min(MAX_TILE_ELEMENTS),
                tensor: number,
            }
        }));
    }
}
