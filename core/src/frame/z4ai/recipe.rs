//! Instructions for the encoder, which [`crate::frame::select`] decides on.

use alloc::vec;
use alloc::vec::Vec;

use super::{BlockCodecs, Codec, Transform};

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
    /// Use Huffman codes, or rANS if byte counts show that it saves more than a
    /// given fraction of the plane.
    HuffmanOrRans {
        /// n if rANS must save at least 1/n of the plane; 240 means a thirtieth
        /// of a bit per byte.
        min_gain_divisor: usize,
        /// The value of [`BlockCodecs::search_outliers_below`] for uneven planes,
        /// whose statistics vary along the plane.
        search_outliers_below: u8,
    },
    /// Use the codec with the smallest result. The packer keeps the plane and its
    /// coded form in memory, even if they exceed its memory limit.
    Smallest(&'static [Codec]),
    /// Use the smallest result of the zstd codecs, unless another codec saves
    /// more than a given fraction of the plane. The other codecs are rANS, which
    /// takes several times as long to decode each byte.
    PreferFast {
        /// The codecs to try.
        codecs: &'static [Codec],
        /// n if a slow codec must save at least 1/n of the plane; 800 means a
        /// hundredth of a bit per byte.
        min_gain_divisor: usize,
    },
}
