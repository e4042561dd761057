//! Encodes one plane into its payload, following a given recipe.
//!
//! Most planes are coded in independent blocks, so that a large tensor uses
//! every core, and a packer that is short of memory can write the blocks of a
//! plane as they are finished. The bytes are the same either way.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::encode_plane::{huffman_or_rans, prefer_fast, smallest};
use super::{BlockCodecs, PlaneRecipe, Recipe, Transform};
use crate::engine::PackEngine;
use crate::frame::plane::Method;

/// One plane of one tensor, ready to be coded.
#[derive(Debug, Clone, Copy)]
pub struct PlaneCoder<'a> {
    elements: &'a [u8],
    transform: Transform,
    plane: usize,
    len: usize,
    recipe: PlaneRecipe,
}

impl<'a> PlaneCoder<'a> {
    /// Returns the planes of `tensor` in frame order, and the bytes after its last
    /// whole element.
    #[must_use]
    pub fn all(tensor: &'a [u8], recipe: &Recipe) -> (Vec<Self>, &'a [u8]) {
        let item_bytes = recipe.transform.item_bytes();
        let (elements, tail) = tensor.split_at(tensor.len() / item_bytes * item_bytes);
        let lens = recipe.transform.plane_lens(tensor.len());
        let planes = lens
            .into_iter()
            .zip(&recipe.planes)
            .enumerate()
            .map(|(plane, (len, &plane_recipe))| Self {
                elements,
                transform: recipe.transform,
                plane,
                len,
                recipe: plane_recipe,
            })
            .collect();
        (planes, tail)
    }

    /// Returns the length of the plane before coding.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.len
    }

    /// Returns whether the plane is coded in independent blocks; if not, it needs
    /// [`Self::encode_whole`].
    #[must_use]
    pub fn is_blockwise(&self) -> bool {
        matches!(self.recipe, PlaneRecipe::Store | PlaneRecipe::Blocks(_))
    }

    /// Returns the method of a plane that is coded in blocks. Its record says
    /// [`Method::Store`] nevertheless if coding gained nothing.
    #[must_use]
    pub fn block_method(&self) -> Method {
        match self.recipe {
            PlaneRecipe::Blocks(_) if self.len > 0 => match self.block_count() {
                1 => Method::Zstd,
                _ => Method::Blocks,
            },
            _ => Method::Store,
        }
    }

    /// Returns the length of every block but the last.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        match self.recipe {
            PlaneRecipe::Blocks(codecs) => {
                codecs.block_bytes(self.parts(), self.len / self.parts())
            }
            _ => STORED_WRITE_BYTES,
        }
    }

    /// Returns the number of independent blocks.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.len.div_ceil(self.block_bytes() as usize)
    }

    /// Writes bytes `[start, start + out.len())` of the plane, before coding, to
    /// `out`.
    ///
    /// # Panics
    /// If the range exceeds the plane.
    pub fn extract(&self, start: usize, out: &mut [u8]) {
        self.transform.split(self.elements, self.plane, start, out);
    }

    /// Returns the number of equally long parts that the plane consists of.
    fn parts(&self) -> usize {
        self.transform.layout(self.plane).parts
    }

    /// Returns the range of the plane's bytes that block `index` holds.
    #[must_use]
    pub fn block(&self, index: usize) -> Range<usize> {
        let start = index * self.block_bytes() as usize;
        start..self.len.min(start + self.block_bytes() as usize)
    }

    /// Returns the range of the tensor's bytes from which these bytes of the plane
    /// are extracted.
    #[must_use]
    pub fn source(&self, range: Range<usize>) -> Range<usize> {
        let len_bytes = self.elements.len();
        self.transform.source(self.plane, range, len_bytes)
    }

    /// Encodes block `index`: raw for a stored plane, otherwise one zstd frame.
    pub fn encode_block<E: PackEngine>(&self, engine: &E, index: usize) -> Vec<u8> {
        let block = self.block(index);
        let PlaneRecipe::Blocks(codecs) = self.recipe else {
            return self.raw(block.start, block.len());
        };
        let mut buffer = engine.recycled();
        if buffer.len() < block.len() {
            buffer = vec![0; block.len()];
        }
        let raw = &mut buffer[..block.len()];
        self.extract(block.start, raw);
        let coded = codecs.encode(engine, raw);
        engine.recycle(buffer);
        coded
    }

    /// Encodes a plane that is not [`Self::is_blockwise`], and returns its method
    /// and payload. Any other plane is stored.
    pub fn encode_whole<E: PackEngine>(&self, engine: &E) -> (Method, Vec<u8>) {
        let raw = self.raw(0, self.len);
        match self.recipe {
            PlaneRecipe::HuffmanOrRans {
                min_gain_divisor,
                search_outliers_below,
            } => {
                let codecs = BlockCodecs {
                    search_outliers_below,
                    ..BlockCodecs::HUFFMAN
                };
                huffman_or_rans(engine, raw, self.parts(), min_gain_divisor, codecs)
            }
            PlaneRecipe::Smallest(codecs) => smallest(engine, raw, self.parts(), codecs),
            PlaneRecipe::PreferFast {
                codecs,
                min_gain_divisor,
            } => prefer_fast(engine, raw, self.parts(), codecs, min_gain_divisor),
            _ => (Method::Store, raw),
        }
    }

    fn raw(&self, start: usize, len: usize) -> Vec<u8> {
        let mut raw = vec![0; len];
        self.extract(start, &mut raw);
        raw
    }
}

/// The size of the pieces in which a stored plane, which has no blocks, is
/// written.
const STORED_WRITE_BYTES: u32 = 1 << 20;
