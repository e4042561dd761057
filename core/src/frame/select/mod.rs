//! The encoder's choice: which frame, which transform, and what to try on
//! each plane.
//!
//! Deterministic: the same bytes, dtype and effort give the same frame,
//! whatever the engine's thread count or the memory at hand. No decoder
//! depends on anything here.

use alloc::vec;
use alloc::vec::Vec;

use crate::dtype::Dtype;
use crate::engine::{PackEngine, ZstdCoding};
use crate::frame::plane::HEAD_BYTES;
use crate::frame::z4ai::{self, PlaneRecipe, RANS_MOST_BYTES, Recipe, Transform};
use crate::transform::bitfield::BFLOAT16;

mod alternatives;
mod estimate;
mod sample;

pub use alternatives::alternative;

/// How much time packing may take for how much space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Effort {
    /// As fast as possible.
    Fast,
    /// The default.
    #[default]
    Balanced,
    /// As small as possible.
    Max,
}

impl Effort {
    fn search_level(self) -> i32 {
        match self {
            Self::Fast => 1,
            Self::Balanced => 3,
            Self::Max => 12,
        }
    }

    /// Level of the trial on a sample, which tells whether a search pays.
    fn trial_level(self) -> i32 {
        match self {
            Self::Fast | Self::Balanced => 1,
            Self::Max => self.search_level(),
        }
    }

    /// How much smaller, in parts of one, bit fields have to be before they
    /// replace byte planes. Their mantissa plane must be entropy-decoded where
    /// byte planes are mostly copied, so reading costs about twice as much.
    fn bit_field_gain(self) -> f64 {
        match self {
            Self::Fast => 1.0,
            Self::Balanced => 0.01,
            Self::Max => 0.0,
        }
    }
}

fn zstd(effort: Effort, huffman: bool, search: bool) -> PlaneRecipe {
    PlaneRecipe::Zstd {
        huffman: huffman.then_some(ZstdCoding::Huffman),
        search: search.then_some(ZstdCoding::Search(effort.search_level())),
    }
}

/// Tensors up to this size are coded in every way at hand instead of being
/// judged by a sample.
const SMALL_BYTES: usize = 16 << 10;

/// The smallest frame found for `tensor`.
#[must_use]
pub fn encode<E: PackEngine>(
    engine: &E,
    tensor: &[u8],
    dtype: Option<Dtype>,
    effort: Effort,
) -> Vec<u8> {
    let planes = encode_planes(engine, tensor, dtype, effort);
    match alternative(engine, tensor, dtype, effort) {
        Some(other) if other.len() < planes.len() => other,
        _ => planes,
    }
}

fn encode_planes<E: PackEngine>(
    engine: &E,
    tensor: &[u8],
    dtype: Option<Dtype>,
    effort: Effort,
) -> Vec<u8> {
    if tensor.len() > SMALL_BYTES {
        return z4ai::encode(engine, tensor, &recipe(engine, tensor, dtype, effort));
    }
    if tensor.is_empty() {
        let stored = Recipe {
            transform: Transform::Opaque,
            planes: vec![PlaneRecipe::Store],
        };
        return z4ai::encode(engine, tensor, &stored);
    }
    let mut best: Option<(f64, Vec<u8>)> = None;
    for transform in transforms(dtype, effort) {
        let recipe = Recipe {
            transform,
            planes: vec![zstd(effort, true, true); plane_count(transform)],
        };
        let frame = z4ai::encode(engine, tensor, &recipe);
        let cost = handicap(transform, effort) * frame.len() as f64;
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, frame));
        }
    }
    best.map(|(_, frame)| frame).unwrap_or_default()
}

/// How [`encode`] makes planes of a tensor of any size, judged by a sample.
#[must_use]
pub fn recipe<E: PackEngine>(
    engine: &E,
    tensor: &[u8],
    dtype: Option<Dtype>,
    effort: Effort,
) -> Recipe {
    let windows = sample::windows(tensor);
    let mut best: Option<(f64, Recipe)> = None;
    for transform in transforms(dtype, effort) {
        let sampled = sample::planes(&windows, transform);
        let may_rans = tensor.len() / transform.item_bytes() <= RANS_MOST_BYTES;
        let judged: Vec<(PlaneRecipe, f64)> = sampled
            .iter()
            .map(|plane| estimate::judge(engine, plane, effort, may_rans))
            .collect();
        let coded: f64 = judged.iter().map(|(_, bytes)| bytes).sum();
        // Heads settle it where nothing shrinks: the fewer planes, the better.
        let heads = judged.len() * HEAD_BYTES;
        let cost = handicap(transform, effort) * coded + heads as f64;
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            let planes = judged.into_iter().map(|(recipe, _)| recipe).collect();
            best = Some((cost, Recipe { transform, planes }));
        }
    }
    best.map(|(_, recipe)| recipe).unwrap_or(Recipe {
        transform: Transform::Opaque,
        planes: vec![PlaneRecipe::Store],
    })
}

/// Transforms worth a look, the one preferred at equal size first.
fn transforms(dtype: Option<Dtype>, effort: Effort) -> Vec<Transform> {
    let Some(width) = element_bytes(dtype) else {
        return vec![Transform::Opaque];
    };
    let mut all = vec![Transform::BytePlane(width), Transform::Opaque];
    if dtype == Some(Dtype::Bf16) && effort != Effort::Fast {
        all.push(Transform::BitField(BFLOAT16));
    }
    all
}

/// Bytes of the elements as they are taken apart; `None` where that is of no
/// use.
fn element_bytes(dtype: Option<Dtype>) -> Option<u8> {
    match dtype?.len_bytes()? {
        // A complex number is two floats.
        8 if dtype == Some(Dtype::C64) => Some(4),
        width @ (2 | 4 | 8) => Some(width.to_le_bytes()[0]),
        _ => None,
    }
}

fn handicap(transform: Transform, effort: Effort) -> f64 {
    match transform {
        Transform::BitField(_) => 1.0 + effort.bit_field_gain(),
        _ => 1.0,
    }
}

fn plane_count(transform: Transform) -> usize {
    match transform {
        Transform::Opaque => 1,
        Transform::BytePlane(width) => width.into(),
        Transform::BitField(_) => 3,
    }
}
