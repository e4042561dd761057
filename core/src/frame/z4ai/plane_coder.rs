//! Encoder of one plane, following a given recipe.
//!
//! Most planes are coded in independent blocks, so that a large tensor can use
//! every core and a packer that is short of memory can write the blocks of a plane
//! as they are finished. The resulting bytes are the same either way.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Deref, Range};

use super::recipe::{Codec, Division};
use super::{PlaneRecipe, Recipe, Transform};
use crate::engine::PackEngine;
use crate::frame::plane::Method;

/// The geometry of one plane of one tensor, and its recipe. It does not need the
/// tensor in memory: [`PlaneShape::source`] returns the range of tensor bytes that
/// determines a range of the plane, and [`PlaneShape::extract_from`] extracts the
/// plane's bytes from that range.
#[derive(Debug, Clone, Copy)]
pub struct PlaneShape {
    /// Total length in bytes of the whole elements of the tensor.
    elements_len: usize,
    transform: Transform,
    plane: usize,
    len: usize,
    recipe: PlaneRecipe,
}

impl PlaneShape {
    /// Returns the planes of a tensor of `len_bytes` bytes, in frame order.
    #[must_use]
    pub fn all(len_bytes: usize, recipe: &Recipe) -> Vec<Self> {
        let item_bytes = recipe.transform.item_bytes();
        let lens = recipe.transform.plane_lens(len_bytes).into_iter();
        let planes = lens.zip(&recipe.planes).enumerate();
        planes
            .map(|(plane, (len, &plane_recipe))| Self {
                elements_len: len_bytes / item_bytes * item_bytes,
                transform: recipe.transform,
                plane,
                len,
                recipe: plane_recipe,
            })
            .collect()
    }

    /// Returns the total length in bytes of the whole elements of the tensor. The
    /// bytes after them are the tail of its frame.
    #[must_use]
    pub fn elements_len_bytes(&self) -> usize {
        self.elements_len
    }

    /// Returns the length of the uncoded plane in bytes.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.len
    }

    /// Returns whether the plane is coded in independent blocks. If not,
    /// [`PlaneShape::encode_plane`] codes it as a whole.
    #[must_use]
    pub fn is_blockwise(&self) -> bool {
        matches!(self.recipe, PlaneRecipe::Store | PlaneRecipe::Blocks(_))
    }

    /// Returns the method of a plane that is coded in blocks. If coding does not
    /// make the plane smaller, its record has [`Method::Store`] instead.
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

    /// Returns the length of every block except the last, in bytes.
    #[must_use]
    pub fn block_bytes(&self) -> u32 {
        match self.recipe {
            PlaneRecipe::Blocks(codecs) => codecs.block_bytes(self.division(), self.part_bytes()),
            _ => STORED_WRITE_BYTES,
        }
    }

    /// Returns the number of independent blocks.
    #[must_use]
    pub fn block_count(&self) -> usize {
        self.len.div_ceil(self.block_bytes() as usize)
    }

    /// Returns the number of planes of the tensor, and the number of parts of equal
    /// length that this plane consists of.
    fn division(&self) -> Division {
        Division {
            planes: self.transform.planes(),
            parts: self.transform.layout(self.plane).parts,
        }
    }

    /// Returns the length of each part of the plane in bytes. The source of a range
    /// within one part is a contiguous range of elements.
    #[must_use]
    pub fn part_bytes(&self) -> usize {
        self.len / self.division().parts
    }

    /// Returns the range of the plane that block `index` holds.
    #[must_use]
    pub fn block(&self, index: usize) -> Range<usize> {
        let start = index * self.block_bytes() as usize;
        start..self.len.min(start + self.block_bytes() as usize)
    }

    /// Returns the range of the tensor's bytes from which `range` of the plane is
    /// extracted.
    #[must_use]
    pub fn source(&self, range: Range<usize>) -> Range<usize> {
        self.transform.source(self.plane, range, self.elements_len)
    }

    /// Extracts uncoded bytes of the plane, from offset `start`, into `out`.
    /// `source` holds the tensor's bytes in the range that [`PlaneShape::source`]
    /// returns for this range of the plane, which must lie within one part
    /// ([`PlaneShape::part_bytes`]).
    ///
    /// # Panics
    /// If the range spans two parts or exceeds the plane, or if `source` has the
    /// wrong length.
    pub fn extract_from(&self, source: &[u8], start: usize, out: &mut [u8]) {
        // `source` is split as if it were a whole tensor, whose planes have parts as long
        // as `out`.
        let part = start / self.part_bytes().max(1);
        self.transform
            .split(source, self.plane, part * out.len(), out);
    }

    /// Encodes `raw`, the bytes of one block. A block of a stored plane is copied;
    /// any other block becomes one zstd frame.
    pub fn encode_raw<E: PackEngine>(&self, engine: &E, raw: &[u8]) -> Vec<u8> {
        match self.recipe {
            PlaneRecipe::Blocks(codecs) => codecs.encode(engine, raw),
            _ => raw.to_vec(),
        }
    }

    /// Encodes `raw`, all bytes of a plane that is not [`Self::is_blockwise`], and
    /// returns its method and payload. A blockwise plane is stored.
    pub fn encode_plane<E: PackEngine>(&self, engine: &E, raw: Vec<u8>) -> (Method, Vec<u8>) {
        match self.recipe {
            PlaneRecipe::Smallest(codecs) => smallest(engine, raw, self.division(), codecs),
            PlaneRecipe::PreferFast {
                codecs,
                min_gain_divisor,
            } => prefer_fast(engine, raw, self.division(), codecs, min_gain_divisor),
            _ => (Method::Store, raw),
        }
    }
}

/// One plane of a tensor that is in memory.
#[derive(Debug, Clone, Copy)]
pub struct PlaneCoder<'a> {
    elements: &'a [u8],
    shape: PlaneShape,
}

impl Deref for PlaneCoder<'_> {
    type Target = PlaneShape;

    fn deref(&self) -> &PlaneShape {
        &self.shape
    }
}

impl<'a> PlaneCoder<'a> {
    /// Returns the planes of `tensor` in frame order, and the bytes after its last
    /// whole element.
    #[must_use]
    pub fn all(tensor: &'a [u8], recipe: &Recipe) -> (Vec<Self>, &'a [u8]) {
        let item_bytes = recipe.transform.item_bytes();
        let (elements, tail) = tensor.split_at(tensor.len() / item_bytes * item_bytes);
        let shapes = PlaneShape::all(tensor.len(), recipe).into_iter();
        (shapes.map(|shape| Self { elements, shape }).collect(), tail)
    }

    /// Extracts uncoded bytes `[start, start + out.len())` of the plane into `out`.
    ///
    /// # Panics
    /// If the range exceeds the plane.
    pub fn extract(&self, start: usize, out: &mut [u8]) {
        let PlaneShape {
            transform, plane, ..
        } = self.shape;
        transform.split(self.elements, plane, start, out);
    }

    /// Encodes block `index`. A block of a stored plane is copied; any other block
    /// becomes one zstd frame.
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

    /// Encodes a plane that is not [`PlaneShape::is_blockwise`], and returns its
    /// method and payload. A blockwise plane is stored.
    pub(crate) fn encode_whole<E: PackEngine>(&self, engine: &E) -> (Method, Vec<u8>) {
        self.encode_plane(engine, self.raw(0, self.len))
    }

    fn raw(&self, start: usize, len: usize) -> Vec<u8> {
        let mut raw = vec![0; len];
        self.extract(start, &mut raw);
        raw
    }
}

/// A stored plane has no blocks of its own, so it is written in blocks of this
/// length.
const STORED_WRITE_BYTES: u32 = 1 << 20;

/// Returns the smallest result of `codecs`, or the plane itself if no codec makes
/// it smaller. Of the codecs whose length follows from byte counts, only the most
/// promising one is run.
pub(super) fn smallest<E: PackEngine>(
    engine: &E,
    plane: Vec<u8>,
    division: Division,
    codecs: &[Codec],
) -> (Method, Vec<u8>) {
    let (counted, mut tried) = by_counts(engine, &plane, codecs.to_vec());
    tried.extend(counted.map(|(_, codec)| codec));
    let coded = try_all(engine, &plane, division, tried);
    shortest(coded, plane.len()).unwrap_or((Method::Store, plane))
}

/// Returns the smallest zstd result, unless another codec saves more than
/// 1/`min_gain_divisor` of the plane in comparison. Of the other codecs whose
/// length follows from byte counts, only the most promising one is run, and only
/// if it is expected to save that much.
pub(super) fn prefer_fast<E: PackEngine>(
    engine: &E,
    plane: Vec<u8>,
    division: Division,
    codecs: &[Codec],
    min_gain_divisor: usize,
) -> (Method, Vec<u8>) {
    let (fast, slow): (Vec<Codec>, Vec<Codec>) = codecs.iter().partition(|codec| codec.is_zstd());
    let best = shortest(try_all(engine, &plane, division, fast), plane.len());
    let best_len = best
        .as_ref()
        .map_or(plane.len(), |(_, payload)| payload.len());
    let min_gain = match plane.len() / min_gain_divisor {
        // If the plane compresses to less than an eighth, a slow codec has little
        // to decode, so a gain of 0.5 % of the result is enough.
        gain if best_len < plane.len() / 8 => gain.min(best_len / 200),
        gain => gain,
    };
    let max_bytes = best_len.saturating_sub(min_gain);

    let (counted, mut tried) = by_counts(engine, &plane, slow);
    let gains_enough = counted.filter(|(expected, _)| *expected < max_bytes);
    tried.extend(gains_enough.map(|(_, codec)| codec));
    shortest(try_all(engine, &plane, division, tried), max_bytes)
        .or(best)
        .unwrap_or((Method::Store, plane))
}

/// Returns the codec with the shortest expected payload among the codecs whose
/// length follows from byte counts, together with that length, and the remaining
/// codecs.
fn by_counts<E: PackEngine>(
    engine: &E,
    plane: &[u8],
    codecs: Vec<Codec>,
) -> (Option<(usize, Codec)>, Vec<Codec>) {
    let mut best: Option<(usize, Codec)> = None;
    let mut others = Vec::new();
    for codec in codecs {
        match codec.expected_len_bytes(engine, plane) {
            Some(len) if best.is_none_or(|(best_len, _)| len < best_len) => {
                best = Some((len, codec));
            }
            Some(_) => {}
            None => others.push(codec),
        }
    }
    (best, others)
}

fn try_all<E: PackEngine>(
    engine: &E,
    plane: &[u8],
    division: Division,
    codecs: Vec<Codec>,
) -> Vec<(Method, Vec<u8>)> {
    if plane.is_empty() {
        return Vec::new();
    }
    let coded = engine.map(codecs, |codec| codec.encode(engine, plane, division));
    coded.into_iter().flatten().collect()
}

/// Returns the shortest payload below `limit_bytes`. Of equal lengths the first
/// wins, so the result does not depend on the number of threads.
fn shortest(coded: Vec<(Method, Vec<u8>)>, limit_bytes: usize) -> Option<(Method, Vec<u8>)> {
    coded
        .into_iter()
        .min_by_key(|(_, payload)| payload.len())
        .filter(|(_, payload)| payload.len() < limit_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::bitfield::{BFLOAT16, FLOAT32};

    #[test]
    fn a_plane_is_the_same_from_parts_of_its_tensor() {
        let tensor: Vec<u8> = (0..1003u32)
            .map(|i| (i * 37 % 251).to_le_bytes()[0])
            .collect();
        for transform in [
            Transform::Opaque,
            Transform::BytePlane(4),
            Transform::BitField(BFLOAT16),
            Transform::BitField(FLOAT32),
        ] {
            let recipe = Recipe {
                transform,
                planes: vec![PlaneRecipe::Store; transform.planes()],
            };
            for coder in PlaneCoder::all(&tensor, &recipe).0 {
                let whole = coder.raw(0, coder.len_bytes());
                for part in (0..whole.len()).step_by(coder.part_bytes()) {
                    for start in (part..part + coder.part_bytes()).step_by(7) {
                        let end = (part + coder.part_bytes()).min(start + 7);
                        let mut out = vec![0; end - start];
                        let source = &tensor[coder.source(start..end)];
                        coder.extract_from(source, start, &mut out);
                        assert_eq!(out, whole[start..end], "{}", transform.name());
                    }
                }
            }
        }
    }
}
