//! Instructions to an encoder. [`crate::frame::select`] decides what they are.

use alloc::vec;
use alloc::vec::Vec;

use super::{BlockCodecs, Codec, Transform};

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
        /// That of [`BlockCodecs`], for planes that differ from place to place.
        search_outliers_below: u8,
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
