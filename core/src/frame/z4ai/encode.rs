//! A buffer to a frame, following a [`Recipe`] that somebody else has chosen.
//!
//! A plane is made block by block and no block needs another, so that a large
//! tensor uses every core, and a packer short of memory can write the blocks
//! of a plane as they come. Both ways give the same bytes.

use alloc::vec;
use alloc::vec::Vec;

use super::{MAGIC, PlaneRecipe, Recipe, Transform, VERSION};
use crate::engine::PackEngine;
use crate::entropy::{blocks, rans};
use crate::frame::plane::{self, Method};
use crate::transform::byteplane;

/// The bytes of a frame up to its first plane record.
#[must_use]
pub fn head(transform: Transform, tail: &[u8]) -> Vec<u8> {
    let (id, width, planes, format) = match transform {
        Transform::Opaque => (0, 1, 1, ""),
        Transform::BytePlane(width) => (1, width, width, ""),
        Transform::BitField(format) => (2, 0, 3, format.name),
    };
    let mut out = Vec::with_capacity(32);
    out.extend_from_slice(&MAGIC);
    // Version, no flags, a transform, and no NumPy dtype.
    out.extend_from_slice(&[VERSION, 0, id, width, planes, 0]);
    // Format names and tails are short: eight letters, less than an element.
    out.push(format.len().to_le_bytes()[0]);
    out.extend_from_slice(format.as_bytes());
    out.push(0);
    out.extend_from_slice(&(tail.len() as u64).to_le_bytes()[..4]);
    out.extend_from_slice(tail);
    out
}

/// One plane of one tensor, ready to be coded in independent blocks.
#[derive(Debug, Clone, Copy)]
pub struct PlaneCoder<'a> {
    elements: &'a [u8],
    transform: Transform,
    plane: usize,
    len: usize,
    recipe: PlaneRecipe,
}

impl<'a> PlaneCoder<'a> {
    /// The planes of `tensor` in frame order, and the bytes left over at its
    /// end.
    #[must_use]
    pub fn all(tensor: &'a [u8], recipe: &Recipe) -> (Vec<Self>, &'a [u8]) {
        let item_bytes = recipe.transform.item_bytes();
        let (elements, tail) = tensor.split_at(tensor.len() / item_bytes * item_bytes);
        let n = elements.len() / item_bytes;
        let lens = match recipe.transform {
            Transform::Opaque => vec![n],
            Transform::BytePlane(width) => vec![n; width.into()],
            Transform::BitField(format) => format.plane_lens(n).to_vec(),
        };
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

    /// Length of the plane before coding.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.len
    }

    /// What the recipe asks for; the record says [`Method::Store`] all the
    /// same where coding gained nothing.
    #[must_use]
    pub fn method(&self) -> Method {
        match self.recipe {
            _ if self.len == 0 => Method::Store,
            PlaneRecipe::Store => Method::Store,
            PlaneRecipe::Rans => Method::RansAdaptive,
            PlaneRecipe::Zstd { .. } if self.block_count() > 1 => Method::Blocks,
            PlaneRecipe::Zstd { .. } => Method::Zstd,
        }
    }

    /// Bytes of every block but the last.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        self.recipe.block_bytes()
    }

    /// Number of independent blocks.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.len.div_ceil(self.block_bytes() as usize)
    }

    /// Bytes `[start, start + out.len())` of the plane, uncoded.
    ///
    /// # Panics
    /// If the range reaches past the plane.
    pub fn extract(&self, start: usize, out: &mut [u8]) {
        match self.transform {
            Transform::Opaque => out.copy_from_slice(&self.elements[start..start + out.len()]),
            Transform::BytePlane(width) => {
                byteplane::split(self.elements, width.into(), self.plane, start, out);
            }
            Transform::BitField(format) => format.split(self.elements, self.plane, start, out),
        }
    }

    /// Part of the tensor, in bytes, that block `index` is made of.
    #[must_use]
    pub fn block_source(&self, index: usize) -> core::ops::Range<usize> {
        let source = |at: usize| match self.transform {
            Transform::BitField(format) if self.plane == 0 => at * 8 * format.item_bytes,
            Transform::BitField(format) if self.plane == 2 && format.mantissa_bytes() > 1 => at,
            _ => at * self.transform.item_bytes(),
        };
        let start = index * self.block_bytes() as usize;
        let end = self.len.min(start + self.block_bytes() as usize);
        source(start).min(self.elements.len())..source(end).min(self.elements.len())
    }

    /// Block `index`: raw for a stored plane, else one zstd frame or one rANS
    /// payload.
    pub fn encode_block<E: PackEngine>(&self, engine: &E, index: usize) -> Vec<u8> {
        let start = index * self.block_bytes() as usize;
        let len = (self.len - start).min(self.block_bytes() as usize);
        let mut raw = vec![0; len];
        self.extract(start, &mut raw);
        let (huffman, search) = match self.recipe {
            PlaneRecipe::Store => return raw,
            PlaneRecipe::Rans => return rans::encode_adaptive(engine, &raw),
            PlaneRecipe::Zstd { huffman, search } => (huffman, search),
        };
        let mut best = Vec::new();
        for coding in [huffman, search].into_iter().flatten() {
            let mut coded = Vec::new();
            engine.zstd_encode(&raw, coding, &mut coded);
            if best.is_empty() || coded.len() < best.len() {
                best = coded;
            }
        }
        best
    }

    fn assemble(&self, blocks: &[Vec<u8>], out: &mut Vec<u8>) {
        let stored: usize = blocks.iter().map(Vec::len).sum();
        let lens: Vec<u32> = blocks
            .iter()
            .map(|block| u32::try_from(block.len()).expect("a block is at most a few MiB"))
            .collect();
        let (method, table) = match self.method() {
            Method::Blocks => (Method::Blocks, blocks::table(self.block_bytes(), &lens)),
            method => (method, Vec::new()),
        };
        if table.len() + stored >= self.len && method != Method::Store {
            out.extend_from_slice(&plane::head(
                Method::Store,
                self.len as u64,
                self.len as u64,
            ));
            let at = out.len();
            out.resize(at + self.len, 0);
            self.extract(0, &mut out[at..]);
            return;
        }
        out.extend_from_slice(&plane::head(
            method,
            self.len as u64,
            (table.len() + stored) as u64,
        ));
        out.extend_from_slice(&table);
        for block in blocks {
            out.extend_from_slice(block);
        }
    }
}

/// The frame of `tensor` that follows `recipe`.
#[must_use]
pub fn encode<E: PackEngine>(engine: &E, tensor: &[u8], recipe: &Recipe) -> Vec<u8> {
    let (planes, tail) = PlaneCoder::all(tensor, recipe);
    let jobs: Vec<(usize, usize)> = planes
        .iter()
        .enumerate()
        .flat_map(|(plane, coder)| (0..coder.block_count()).map(move |block| (plane, block)))
        .collect();
    let mut coded = engine
        .map(jobs, |(plane, block)| {
            planes[plane].encode_block(engine, block)
        })
        .into_iter();
    let mut out = head(recipe.transform, tail);
    for coder in &planes {
        let blocks: Vec<Vec<u8>> = coded.by_ref().take(coder.block_count()).collect();
        coder.assemble(&blocks, &mut out);
    }
    out
}
