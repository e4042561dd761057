//! Decoding of zstn's frames on a GPU.
//!
//! [`zstn_core::frame::plan`] describes the frames by lists, [`Jobs`] divides the work
//! on them into blocks of threads, and the kernels in `kernels/` do the work:
//!
//! | file | task | a block of threads works on |
//! |---|---|---|
//! | `tables.cu` | expands Huffman codes into lookup tables | a code |
//! | `segments.cu` | decodes Huffman-coded segments into planes | a segment of [`Jobs::segments`] |
//! | `segments.cu` | copies other segments into planes | a segment of [`Jobs::copies`] |
//! | `rans.cu` | decodes rANS streams into planes | up to eight segments of [`Jobs::rans`] |
//! | `bfloat16.cu` | decodes exponents, and joins them with signs and mantissas | a tile of [`Jobs::bfloat16`] |
//! | `join.cu`, `palette.cu` | joins planes of all other elements | a tile of [`Jobs::joins`] |
//! | `lattice.cu` | multiplies the symbols of lattices by scales | a tile of [`Jobs::lattices`] |
//! | `sparse.cu` | counts the values of sparse tensors | a tile of [`Jobs::sparse`] |
//! | `sparse.cu` | adds up these counts | a tensor of [`Jobs::sparse_sums`] |
//! | `sparse.cu` | writes the values to their places | a tile of [`Jobs::sparse`] |
//! | `xor.cu` | copies bytes of the base to the scratch buffer | a tile of [`Jobs::xors`] |
//! | `digest.cu` | hashes bytes of the output | a tile of [`Jobs::digests`] |
//! | `digest.cu` | compares the hashes with digests | a sum of [`Jobs::digest_sums`] |
//! | `difference.cu` | decodes differences | up to eight blocks of [`Jobs::differences`] |
//! | `xor.cu` | XORs decoded bytes with the base's | a tile of [`Jobs::xors`] |
//!
//! The first four kernels, and the host for the segments that are left to it, are
//! independent of each other, except that Huffman-coded segments need the tables. The
//! others run after them, and the three of `sparse.cu` run in this order.
//!
//! Bytes of the base are copied before any kernel writes to the output. Decoded bytes are
//! XORed with them after everything has been decoded, and [`Jobs::digests`] follow that.
//!
//! [`load`] reads whole models into the memory of a [`Device`]. With the feature `cuda`,
//! [`cuda::Gpu`] is one. A program that links with it needs no CUDA to be built or to
//! start: the driver is loaded when a GPU is opened.
//!
//! The kernels check that every stream ends exactly with its last symbol, that no field is
//! too wide, that palettes have all of their indices, that symbols of lattices have a
//! value, that sparse tensors have a value for every bit, and that tensors of deltas have their
//! digests. They report the lowest index of each kind of damage ([`Damage`]). Damaged streams
//! never cause accesses outside the buffers. The lists have to come from a plan.

#[cfg(feature = "cuda")]
pub mod cuda;
mod device;
mod error;
mod jobs;
mod launch;
pub mod load;

pub use device::{Device, Output, Queue};
pub use error::{Error, Result};
pub use jobs::{
    DifferenceBlocks, DigestSum, DigestTile, IN_SCRATCH, Jobs, MAX_TILE_ELEMENTS, RansChunks,
    SparseSum, SparseTile, Tile, XorTile,
};
pub use launch::{Damage, difference_shared_bytes, host_place, stream_shared_bytes};

/// The kernels as PTX for compute capability 8.0, which drivers compile for their GPU.
/// `cargo xtask gpu --write` makes it.
pub const KERNELS: &str = include_str!("../kernels.ptx");
