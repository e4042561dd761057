//! The encoder's choice: which frame, which transform, and what to try on
//! each plane.
//!
//! Deterministic: the same bytes, dtype and effort give the same frame,
//! whatever the engine's thread count or the memory at hand. No decoder
//! depends on anything here.

use alloc::vec;
use alloc::vec::Vec;

use crate::dtype::Dtype;
use crate::engine::PackEngine;
use crate::frame::plane::HEAD_BYTES;
use crate::frame::z4ai::{self, PlaneRecipe, Recipe, Transform};
use crate::transform::FloatFormat;
use crate::transform::bitfield::{BFLOAT16, FLOAT16, FLOAT32};

mod alternatives;
mod effort;
mod estimate;
mod repeats;
mod sample;
mod standalone;
mod ways;

pub use alternatives::alternative;
pub use effort::Effort;
pub use standalone::standalone;

use estimate::Estimate;

/// Tensors up to this size are coded in every way at hand instead of being
/// judged by a sample.
const SMALL_BYTES: usize = 16 << 10;

/// The smallest frame found for `tensor`, of the families that a container
/// may hold.
#[must_use]
pub fn encode<E: PackEngine>(
    engine: &E,
    tensor: &[u8],
    dtype: Option<Dtype>,
    effort: Effort,
) -> Vec<u8> {
    let planes = z4ai::encode(engine, tensor, &recipe(engine, tensor, dtype, effort));
    match alternative(engine, tensor, dtype, effort) {
        Some(other) if other.len() < planes.len() => other,
        _ => planes,
    }
}

/// How [`encode`] makes planes of a tensor of any size.
///
/// A packer that codes a tensor plane by plane takes the frame that
/// [`alternative`] makes instead if it is strictly smaller, as [`encode`]
/// does.
#[must_use]
pub fn recipe<E: PackEngine>(
    engine: &E,
    tensor: &[u8],
    dtype: Option<Dtype>,
    effort: Effort,
) -> Recipe {
    let best = ranked(engine, tensor, dtype, effort).into_iter().next();
    best.map(|(_, recipe)| recipe).unwrap_or(Recipe {
        transform: Transform::Opaque,
        planes: vec![PlaneRecipe::Store],
    })
}

/// A recipe for every transform worth a look, with the bytes it is expected
/// to come to, the best one first.
fn ranked<E: PackEngine>(
    engine: &E,
    tensor: &[u8],
    dtype: Option<Dtype>,
    effort: Effort,
) -> Vec<(f64, Recipe)> {
    if tensor.is_empty() {
        return Vec::new();
    }
    let repeats = repeats::are_far_apart(tensor, effort);
    let windows = sample::windows(tensor);
    let sampled_bytes: usize = windows.iter().map(|window| window.len()).sum();
    let scale = tensor.len() as f64 / sampled_bytes as f64;
    let mut ranked: Vec<(f64, Recipe)> = transforms(dtype, effort)
        .into_iter()
        .map(|transform| {
            let mut cost = (transform.planes() * HEAD_BYTES) as f64;
            let lens = transform.plane_lens(tensor.len());
            let planes = sample::planes(&windows, transform)
                .iter()
                .zip(lens)
                .map(|(parts, len_bytes)| {
                    let estimates = parts
                        .iter()
                        .map(|part| Estimate::of(engine, part, scale, effort));
                    let (recipe, bytes) =
                        ways::choose(&estimates.collect::<Vec<_>>(), len_bytes, effort, repeats);
                    cost += bytes * scale;
                    recipe
                })
                .collect();
            (
                cost * handicap(transform, effort),
                Recipe { transform, planes },
            )
        })
        .collect();
    // Stable: of equals the one preferred stays in front.
    ranked.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    ranked
}

/// Transforms worth a look, the one preferred at equal size first.
fn transforms(dtype: Option<Dtype>, effort: Effort) -> Vec<Transform> {
    let Some(width) = element_bytes(dtype) else {
        return vec![Transform::Opaque];
    };
    let mut all = vec![Transform::BytePlane(width), Transform::Opaque];
    if let Some(format) = float_format(dtype)
        && effort != Effort::Fast
    {
        all.push(Transform::BitField(format));
    }
    all
}

fn float_format(dtype: Option<Dtype>) -> Option<FloatFormat> {
    match dtype? {
        Dtype::Bf16 => Some(BFLOAT16),
        Dtype::F16 => Some(FLOAT16),
        Dtype::F32 | Dtype::C64 => Some(FLOAT32),
        _ => None,
    }
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

/// How much smaller bit fields have to be before they replace byte planes:
/// their mantissas must be entropy-decoded where a byte plane of mantissas is
/// copied.
fn handicap(transform: Transform, effort: Effort) -> f64 {
    match (transform, effort) {
        (Transform::BitField(_), Effort::Balanced) => 1.001,
        _ => 1.0,
    }
}
