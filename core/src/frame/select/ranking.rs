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

/// Further below what planes are expected to take than samples err: that of a
/// long look, of a glance, and of a glance that has seen a search come close,
/// which finds more the longer it looks.
const BEATEN: f64 = 0.95;
const BEATEN_AT_A_GLANCE: f64 = 0.93;
const BEATEN_BUT_FOR_A_SEARCH: f64 = 0.9;

/// What is known of a tensor before it is coded: a recipe for every transform
/// worth a look.
#[derive(Debug, Clone)]
pub struct Ranking {
    pub dtype: Option<Dtype>,
    pub effort: Effort,
    /// Each with the bytes it is expected to come to, the best one first;
    /// never empty.
    recipes: Vec<(f64, Recipe)>,
    /// Share of the least of them below which another frame is smaller without
    /// a doubt.
    beaten: f64,
    is_settled: bool,
}

impl Ranking {
    /// Judges a tensor of any size by samples of it.
    pub fn new<E: PackEngine>(
        engine: &E,
        tensor: &[u8],
        dtype: Option<Dtype>,
        effort: Effort,
    ) -> Self {
        Self::glance(engine, tensor, dtype, effort).settled(engine, tensor)
    }

    /// By a short look where that is enough to go on.
    pub fn glance<E: PackEngine>(
        engine: &E,
        tensor: &[u8],
        dtype: Option<Dtype>,
        effort: Effort,
    ) -> Self {
        if tensor.is_empty() {
            return Self {
                dtype,
                effort,
                recipes: vec![(0.0, Recipe::stored())],
                beaten: 0.0,
                is_settled: true,
            };
        }
        let far_repeats = repeats::are_far_apart(tensor, effort);
        let look = match effort {
            Effort::Fast | Effort::Balanced if !far_repeats => sample::SHORT,
            _ => sample::LONG,
        };
        judge(engine, tensor, dtype, effort, far_repeats, look)
    }

    /// By a long look, unless the short one has seen all there is.
    #[must_use]
    pub fn settled<E: PackEngine>(self, engine: &E, tensor: &[u8]) -> Self {
        if self.is_settled {
            return self;
        }
        // Those far apart would have had their long look.
        judge(engine, tensor, self.dtype, self.effort, false, sample::LONG)
    }

    /// Bytes that planes are expected to take.
    pub fn expected_bytes(&self) -> f64 {
        self.recipes[0].0
    }

    /// The recipe expected to give the smallest frame.
    pub fn best(&self) -> &Recipe {
        &self.recipes[0].1
    }

    /// Whether a frame of that length makes it needless to code planes: they are
    /// expected to take a good deal more.
    pub fn is_beaten_by(&self, len_bytes: usize) -> bool {
        self.effort != Effort::Max && (len_bytes as f64) < self.expected_bytes() * self.beaten
    }

    /// All transforms, for a tensor too small to be judged.
    pub fn transforms(&self) -> impl Iterator<Item = Transform> {
        transforms(self.dtype, self.effort).into_iter()
    }

    /// The best recipe and, in order, those that may turn out to be smaller
    /// for a tensor of `len_bytes`.
    pub fn close(&self, len_bytes: usize) -> impl Iterator<Item = &Recipe> {
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

/// The recipes by their expected cost.
fn judge<E: PackEngine>(
    engine: &E,
    tensor: &[u8],
    dtype: Option<Dtype>,
    effort: Effort,
    far_repeats: bool,
    look: Look,
) -> Ranking {
    let (mut is_plain, mut is_searched) = (true, false);
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
            is_searched |= all().any(Estimate::is_search_near);
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
    let is_settled = look.is_long() || is_plain;
    Ranking {
        dtype,
        effort,
        recipes: ranked,
        beaten: match (is_settled, is_searched) {
            (true, _) => BEATEN,
            (false, false) => BEATEN_AT_A_GLANCE,
            (false, true) => BEATEN_BUT_FOR_A_SEARCH,
        },
        is_settled,
    }
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
