//! Ranks the transforms of a tensor by their expected size, which is estimated
//! from samples.

use alloc::vec;
use alloc::vec::Vec;

use super::estimate::{PlaneEstimate, SampleSpec};
use super::sample::{self, Content, Sample};
use super::{Effort, EncodeOptions, SMALL_BYTES, element_bytes, plane_choice, repeats};
use crate::TensorRef;
use crate::dtype::Dtype;
use crate::engine::PackEngine;
use crate::entropy::histogram::{self, huffman_bits};
use crate::frame::plane::HEAD_BYTES;
use crate::frame::z4ai::{Recipe, Transform};
use crate::transform::FloatFormat;
use crate::transform::bitfield::{BFLOAT16, FLOAT16, FLOAT32};

/// [`Effort::Max`] skips a transform if its expected size is more than this
/// factor times the best one. The second factor applies if words repeat, since a
/// search finds more in a whole tensor than in a sample.
const PRUNE_TRANSFORM: f64 = 1.03;
const PRUNE_TRANSFORM_REPEATS: f64 = 1.15;

/// A search in whole elements is tried on long samples if the Huffman size of
/// whole elements is at most this factor times the Huffman size of their planes.
const MAX_WHOLE_RATIO: f64 = 1.12;

/// Planes are not encoded if a frame that is already made is shorter than this
/// factor times their expected size. The margin exceeds the error of the
/// estimate, which depends on its origin: a full sample, a quick sample, or a
/// quick sample on which a search gained at least slightly. A search finds more
/// in longer samples, so the last margin is the widest.
const PRUNE_PLANES: f64 = 0.95;
const PRUNE_PLANES_QUICK: f64 = 0.93;
const PRUNE_PLANES_QUICK_SEARCH: f64 = 0.9;

/// The elements of a tensor, as far as they are known.
#[derive(Debug, Clone, Copy)]
pub struct Elements {
    /// The dtype, or `None` for bytes without a structure.
    pub dtype: Option<Dtype>,
    /// The length of the blocks that the bytes consist of, if they do.
    pub block_bytes: Option<u8>,
}

impl Elements {
    pub(super) fn of(tensor: TensorRef) -> Self {
        Self {
            dtype: tensor.dtype,
            block_bytes: tensor.block_bytes,
        }
    }
}

/// The recipes that may be worth trying on a tensor, one per transform, with the
/// expected sizes.
#[derive(Debug, Clone)]
pub struct Ranking {
    pub elements: Elements,
    pub options: EncodeOptions,
    /// Recipes with their expected sizes in bytes, in ascending order of size;
    /// never empty.
    recipes: Vec<(f64, Recipe)>,
    /// The applicable `PRUNE_PLANES` factor.
    prune_planes: f64,
    /// True if a larger sample would not change the ranking.
    is_final: bool,
    /// True if words repeat in the samples.
    repeats: bool,
    /// True if a search in whole elements may find more than a search in planes.
    pub elements_repeat: bool,
}

impl Ranking {
    /// Ranks by a quick sample if the effort allows it, otherwise by a full one.
    pub(crate) fn quick_estimate<E: PackEngine>(
        engine: &E,
        content: Content,
        elements: Elements,
        options: EncodeOptions,
    ) -> Self {
        if content.len() == 0 {
            return Self {
                elements,
                options,
                recipes: vec![(0.0, Recipe::stored())],
                prune_planes: 0.0,
                is_final: true,
                repeats: false,
                elements_repeat: false,
            };
        }
        let far_repeats = match content {
            Content::Whole(tensor) => repeats::are_far_apart(tensor, options.effort),
            // Such a tensor is too long to search for far repeats.
            Content::Sampled { .. } => false,
        };
        let sample = match options.effort {
            Effort::Fast | Effort::Balanced if !far_repeats => Sample::QUICK,
            _ => Sample::FULL,
        };
        rank(engine, content, elements, options, far_repeats, sample)
    }

    /// Ranks again by a full sample, unless the quick sample was conclusive.
    #[must_use]
    pub(crate) fn refined<E: PackEngine>(self, engine: &E, content: Content) -> Self {
        if self.is_final {
            return self;
        }
        // A tensor with far repeats has already been ranked by a full sample.
        let Self {
            elements, options, ..
        } = self;
        rank(engine, content, elements, options, false, Sample::FULL)
    }

    /// Returns the expected size of the best planes in bytes.
    pub fn expected_bytes(&self) -> f64 {
        self.recipes[0].0
    }

    /// Returns the recipe that is expected to give the smallest frame.
    pub fn best(&self) -> &Recipe {
        &self.recipes[0].1
    }

    /// Returns whether a frame of `len_bytes` bytes is so far below the expected
    /// size of the planes that they need not be encoded.
    pub(crate) fn is_beaten_by(&self, len_bytes: usize) -> bool {
        let max_bytes = self.expected_bytes() * self.prune_planes;
        self.options.effort != Effort::Max && (len_bytes as f64) < max_bytes
    }

    /// Returns the best recipe, followed by the others that may turn out to be
    /// smaller for a tensor of `len_bytes` bytes, in ascending order of expected
    /// size.
    pub fn close(&self, len_bytes: usize) -> impl Iterator<Item = &Recipe> {
        let max_cost = match len_bytes {
            0..=SMALL_BYTES => f64::INFINITY,
            _ if self.repeats => self.recipes[0].0 * PRUNE_TRANSFORM_REPEATS,
            _ => self.recipes[0].0 * PRUNE_TRANSFORM,
        };
        let close = self
            .recipes
            .iter()
            .take_while(move |(cost, _)| *cost <= max_cost);
        close.map(|(_, recipe)| recipe)
    }
}

/// Ranks a recipe for each transform by expected size.
fn rank<E: PackEngine>(
    engine: &E,
    content: Content,
    elements: Elements,
    options: EncodeOptions,
    far_repeats: bool,
    sample: Sample,
) -> Ranking {
    let (effort, dtype) = (options.effort, elements.dtype);
    let (mut is_plain, mut is_searched) = (true, false);
    let windows = content.windows(sample, elements.block_bytes);
    let sampled_bytes: usize = windows.iter().map(|window| window.len()).sum();
    let scale = content.len() as f64 / sampled_bytes as f64;
    let has_same_elements = effort == Effort::Max && repeats::are_elements(&windows, dtype);
    let repeats = far_repeats || has_same_elements || repeats::are_near(&windows);
    let distances = plane_choice::Repeats {
        far: far_repeats,
        near: repeats,
    };
    let spec = SampleSpec {
        effort,
        scale,
        piece_bytes: sample.piece_bytes,
        repeats: repeats || (sample.is_full() && effort != Effort::Max),
        mantissas: false,
        is_part: false,
    };
    let elements_repeat = effort != Effort::Fast
        && repeats
        && (has_same_elements || do_elements_repeat(&windows, dtype));
    // All transforms are tried on the same long pieces. Repeats of a tensor are
    // closer together in its planes, so short pieces would favour planes.
    let pieces = (elements_repeat && sample.is_full()).then(|| content.pieces());
    let transforms = transforms(elements, effort);
    // Unless content repeats, coding planes separately gains at least as much as
    // coding all bytes together, so the latter is not estimated.
    let is_noise_at_best = !spec.repeats && transforms.len() > 1;
    let mut ranked: Vec<(f64, Recipe)> = transforms
        .into_iter()
        .map(|transform| {
            if transform == Transform::Opaque && is_noise_at_best {
                return ((HEAD_BYTES + content.len()) as f64, Recipe::stored());
            }
            let sampled = sample::planes(&windows, transform);
            let trials = pieces
                .as_ref()
                .map(|pieces| sample::planes(pieces, transform));
            let estimate = |(number, plane): (usize, &Vec<Vec<u8>>)| -> Vec<PlaneEstimate> {
                let spec = SampleSpec {
                    mantissas: plane.len() == 1 && transform.is_mantissa(number),
                    is_part: plane.len() > 1,
                    ..spec
                };
                let trial = |part: usize| trials.as_ref().map(|planes| &planes[number][part][..]);
                let parts = plane.iter().enumerate();
                parts
                    .map(|(at, part)| PlaneEstimate::of(engine, part, trial(at), spec))
                    .collect()
            };
            let estimates: Vec<Vec<PlaneEstimate>> =
                sampled.iter().enumerate().map(estimate).collect();
            let all = || estimates.iter().flatten();
            is_plain &= all().all(|part| part.is_plain(effort));
            is_searched |= all().any(PlaneEstimate::is_search_near);
            let mut cost = (transform.planes() * HEAD_BYTES) as f64;
            let planes = transform.plane_lens(content.len()).into_iter();
            let planes = planes.zip(&estimates).map(|(len_bytes, estimates)| {
                let (recipe, expected) =
                    plane_choice::choose(estimates, len_bytes, transform, effort, distances);
                cost += expected * scale;
                recipe
            });
            let planes = planes.collect();
            (cost * bias(transform, effort), Recipe { transform, planes })
        })
        .collect();
    // The sort is stable: of equal sizes, the preferred transform stays first.
    ranked.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let is_final = sample.is_full() || is_plain;
    Ranking {
        elements,
        options,
        recipes: ranked,
        prune_planes: match (is_final, is_searched) {
            (true, _) => PRUNE_PLANES,
            (false, false) => PRUNE_PLANES_QUICK,
            (false, true) => PRUNE_PLANES_QUICK_SEARCH,
        },
        is_final,
        repeats,
        elements_repeat,
    }
}

/// Returns whether, in a tensor with repeated words, a search in whole elements may find
/// more than a search in their planes. The criterion is that byte codes do not become
/// much longer if they ignore the position of a byte within its element.
fn do_elements_repeat(windows: &[&[u8]], dtype: Option<Dtype>) -> bool {
    let Some(width) = element_bytes(dtype).map(usize::from) else {
        return false;
    };
    let mut counts = vec![[0; 256]; width];
    for window in windows {
        for (at, &byte) in window.iter().enumerate() {
            counts[at % width][usize::from(byte)] += 1;
        }
    }
    let planes: u64 = counts.iter().map(|counts| huffman_bits(counts)).sum();
    let whole = huffman_bits(&histogram::sum(&counts));
    whole as f64 <= planes as f64 * MAX_WHOLE_RATIO
}

/// Returns the transforms that may be worth trying. If two are expected to give the same
/// size, the earlier one is preferred.
pub(super) fn transforms(elements: Elements, effort: Effort) -> Vec<Transform> {
    if let Some(width) = elements.block_bytes {
        return vec![Transform::BytePlane(width), Transform::Opaque];
    }
    let dtype = elements.dtype;
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

/// Returns a factor for the expected size of `transform`, which is applied before
/// transforms are compared.
///
/// Bit fields must gain 0.1 % over byte planes, because their mantissas are
/// entropy-decoded, whereas a byte plane of mantissas is copied.
fn bias(transform: Transform, effort: Effort) -> f64 {
    match (transform, effort) {
        (Transform::BitField(_), Effort::Balanced) => 1.001,
        _ => 1.0,
    }
}
