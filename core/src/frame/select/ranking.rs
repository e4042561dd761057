//! The transforms worth a look, judged by a sample.

use alloc::vec;
use alloc::vec::Vec;

use super::estimate::{Estimate, Judge};
use super::sample::{self, Look};
use super::{Effort, SMALL_BYTES, element_bytes, repeats, ways};
use crate::dtype::Dtype;
use crate::engine::PackEngine;
use crate::frame::plane::HEAD_BYTES;
use crate::frame::z4ai::{Recipe, Transform};
use crate::transform::FloatFormat;
use crate::transform::bitfield::{BFLOAT16, FLOAT16, FLOAT32};

/// A transform expected to come to more than this times the best one is not
/// tried by [`Effort::Max`].
const HOPELESS: f64 = 1.15;

/// Further below what planes are expected to take than samples err.
const BEATEN: f64 = 0.95;

/// What is known of a tensor before it is coded: a recipe for every transform
/// worth a look.
#[derive(Debug, Clone)]
pub struct Ranking {
    pub(super) dtype: Option<Dtype>,
    pub(super) effort: Effort,
    /// Each with the bytes it is expected to come to, the best one first;
    /// never empty.
    recipes: Vec<(f64, Recipe)>,
}

impl Ranking {
    /// Judges a tensor of any size by samples of it.
    #[must_use]
    pub fn new<E: PackEngine>(
        engine: &E,
        tensor: &[u8],
        dtype: Option<Dtype>,
        effort: Effort,
    ) -> Self {
        let recipes = if tensor.is_empty() {
            vec![(0.0, Recipe::stored())]
        } else {
            rank(engine, tensor, dtype, effort)
        };
        Self {
            dtype,
            effort,
            recipes,
        }
    }

    /// The recipe expected to give the smallest frame.
    #[must_use]
    pub fn best(&self) -> &Recipe {
        &self.recipes[0].1
    }

    /// Whether a frame of that length makes it needless to code planes: they are
    /// expected to take a good deal more.
    #[must_use]
    pub fn is_beaten_by(&self, len_bytes: usize) -> bool {
        self.effort != Effort::Max && (len_bytes as f64) < self.recipes[0].0 * BEATEN
    }

    /// All transforms, for a tensor too small to be judged.
    pub(super) fn transforms(&self) -> impl Iterator<Item = Transform> {
        transforms(self.dtype, self.effort).into_iter()
    }

    /// The best recipe and, in order, those that may turn out to be smaller
    /// for a tensor of `len_bytes`.
    pub(super) fn close(&self, len_bytes: usize) -> impl Iterator<Item = &Recipe> {
        let most = match len_bytes {
            0..=SMALL_BYTES => f64::INFINITY,
            _ => self.recipes[0].0 * HOPELESS,
        };
        let close = self
            .recipes
            .iter()
            .take_while(move |(cost, _)| *cost <= most);
        close.map(|(_, recipe)| recipe)
    }
}

fn rank<E: PackEngine>(
    engine: &E,
    tensor: &[u8],
    dtype: Option<Dtype>,
    effort: Effort,
) -> Vec<(f64, Recipe)> {
    let repeats = repeats::are_far_apart(tensor, effort);
    if effort != Effort::Max && !repeats {
        let (ranked, is_plain) = judge(engine, tensor, dtype, effort, false, sample::SHORT);
        if is_plain {
            return ranked;
        }
    }
    judge(engine, tensor, dtype, effort, repeats, sample::LONG).0
}

/// The recipes by their expected cost; and whether all planes of all of them
/// are plain ([`Estimate::is_plain`]).
fn judge<E: PackEngine>(
    engine: &E,
    tensor: &[u8],
    dtype: Option<Dtype>,
    effort: Effort,
    far_repeats: bool,
    look: Look,
) -> (Vec<(f64, Recipe)>, bool) {
    let mut is_plain = true;
    let windows = sample::windows(tensor, look);
    let sampled_bytes: usize = windows.iter().map(|window| window.len()).sum();
    let scale = tensor.len() as f64 / sampled_bytes as f64;
    let how = Judge {
        effort,
        scale,
        piece_bytes: look.piece_bytes,
        repeats: look.is_long() || effort == Effort::Max || repeats::are_near(&windows),
    };
    let transforms = transforms(dtype, effort);
    // Where nothing repeats, planes are coded at least as well as the bytes of
    // all together, which are left as they are if they are noise.
    let is_noise_at_best = !how.repeats && transforms.len() > 1;
    let mut ranked: Vec<(f64, Recipe)> = transforms
        .into_iter()
        .map(|transform| {
            if transform == Transform::Opaque && is_noise_at_best {
                return ((HEAD_BYTES + tensor.len()) as f64, Recipe::stored());
            }
            let judged = |plane: &Vec<Vec<u8>>| -> Vec<Estimate> {
                let parts = plane.iter();
                parts.map(|part| Estimate::of(engine, part, how)).collect()
            };
            let sampled = sample::planes(&windows, transform);
            let estimates: Vec<Vec<Estimate>> = sampled.iter().map(judged).collect();
            let all = || estimates.iter().flatten();
            is_plain &= all().all(|part| part.is_plain(effort));
            let coded_bytes = ways::coded_bytes(all());
            let mut cost = (transform.planes() * HEAD_BYTES) as f64;
            let planes = transform.plane_lens(tensor.len()).into_iter();
            let planes = planes.zip(&estimates).map(|(len_bytes, estimates)| {
                let (recipe, bytes) =
                    ways::choose(estimates, len_bytes, coded_bytes, effort, far_repeats);
                cost += bytes * scale;
                recipe
            });
            let planes = planes.collect();
            (
                cost * handicap(transform, effort),
                Recipe { transform, planes },
            )
        })
        .collect();
    // Stable: of equals the one preferred stays in front.
    ranked.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    (ranked, is_plain)
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

/// How much smaller bit fields have to be before they replace byte planes:
/// their mantissas must be entropy-decoded where a byte plane of mantissas is
/// copied.
fn handicap(transform: Transform, effort: Effort) -> f64 {
    match (transform, effort) {
        (Transform::BitField(_), Effort::Balanced) => 1.001,
        _ => 1.0,
    }
}
