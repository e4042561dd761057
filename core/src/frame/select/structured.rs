//! Frames that must be made in memory as a whole: frames for tensors with a
//! structure that planes cannot exploit (many exact zeros, few distinct values, or
//! a lattice) and, for [`Effort::Max`], planes of transforms that did not rank
//! first.

use alloc::vec;
use alloc::vec::Vec;

use super::estimate::{SampleSpec, ZstdEstimate};
use super::sample::Sample;
use super::{
    Effort, EncodeOptions, Ranking, SMALL_BYTES, element_bytes, plane_choice, ranking, sample, zara,
};
use crate::TensorRef;
use crate::engine::{PackEngine, ZstdCoding};
use crate::entropy::histogram::{count, entropy_bits};
use crate::frame::z4ai::{self, Recipe};
use crate::frame::{Family, intervals, lattice, palette as palette_frame, sparse, turbo};
use crate::transform::sparse::count_zeros;
use crate::transform::{self, byteplane, palette};

/// The largest tensor, in bytes, that gets a frame of this module other than a lattice
/// frame. None of these frames is written block by block, so a packer has to keep one in
/// memory regardless of its limit, and a reader of a sparse or palette frame has to
/// decode all of it for one row. The matrices of models with about 8 billion parameters
/// are smaller.
const MAX_TENSOR_BYTES: usize = 128 << 20;

/// The largest tensor, in bytes, that gets an extension frame. Readers of these frames decode
/// single rows. The matrices of models with about 70 billion parameters are smaller (8192 by
/// 28672 in BF16 take 470 MB). A 32-bit address space can hold one, together with its symbols
/// and the copy that verifies the frame.
const MAX_EXTENSION_BYTES: usize = 512 << 20;

/// A sparse frame is tried if at least this percentage of the elements is zero. Its
/// bitmap costs one bit per element.
const MIN_ZEROS_PERCENT: usize = 3;

/// Every coding of a sparse frame is tried if at least this percentage of the elements is
/// zero. Little is left to encode, and rows of zeros, as in deltas of fine-tunes, make
/// samples unreliable.
const MOSTLY_ZERO_PERCENT: usize = 75;

/// The maximum number of values of a palette, which one-byte indices can
/// distinguish.
const MAX_VALUES: u32 = 256;

/// A frame is not made if its expected size is more than this factor times the size
/// of the planes or of another finished frame.
const PRUNE_STRUCTURED: f64 = 1.1;

/// Returns the smallest frame for `tensor` that this module makes.
///
/// Returns `None` if the tensor is too large for all of these frames, if none of them can
/// represent it, or if none is expected to come close to the size of the tensor's planes.
pub fn smallest<E: PackEngine>(
    engine: &E,
    tensor: TensorRef,
    ranking: &Ranking,
) -> Option<Vec<u8>> {
    let bytes = tensor.bytes;
    if bytes.len() > MAX_TENSOR_BYTES {
        return extension(engine, tensor, ranking.options);
    }
    if bytes.is_empty() {
        return None;
    }
    let structured = palette_or_sparse(engine, bytes, ranking);
    let planes = other_planes(engine, bytes, ranking);
    let auto = zara::smallest(engine, bytes, ranking);
    let extension = extension(engine, tensor, ranking.options);
    // The first of equal lengths wins: planes decode fastest, brotli slowest.
    let frames = planes
        .into_iter()
        .chain(structured)
        .chain(extension)
        .chain(auto);
    frames.min_by_key(Vec::len)
}

/// Returns the length in bytes of the longest tensor that gets any frame of this module.
pub(super) fn max_bytes(options: EncodeOptions) -> usize {
    match options.families.contains(Family::Lattice) {
        true => MAX_EXTENSION_BYTES,
        false => MAX_TENSOR_BYTES,
    }
}

/// Returns the extension frame of `tensor`, if the options allow one, the tensor is not too
/// large, and there is one. Intervals are not tried on a tensor with a lattice, which shrinks much
/// more. They decode several times slower than planes and on no GPU, so only
/// [`Effort::Max`] uses them.
pub(super) fn extension<E: PackEngine>(
    engine: &E,
    tensor: TensorRef,
    options: EncodeOptions,
) -> Option<Vec<u8>> {
    if tensor.bytes.len() > MAX_EXTENSION_BYTES {
        return None;
    }
    let is_tried = |family| options.families.contains(family);
    let lattice = is_tried(Family::Lattice).then(|| lattice::encode(engine, tensor, options));
    lattice.flatten().or_else(|| {
        let is_tried = is_tried(Family::Intervals) && options.effort == Effort::Max;
        is_tried
            .then(|| intervals::encode(engine, tensor))
            .flatten()
    })
}

/// Encodes a small tensor with every transform. For [`Effort::Max`], encodes a
/// larger one with the transforms that did not rank first, unless they are pruned.
fn other_planes<E: PackEngine>(engine: &E, tensor: &[u8], ranking: &Ranking) -> Vec<Vec<u8>> {
    let coded = |recipe: &Recipe| z4ai::encode(engine, tensor, recipe);
    if tensor.len() <= SMALL_BYTES {
        let effort = ranking.options.effort;
        let plane = plane_choice::unsampled(effort);
        let transforms = ranking::transforms(ranking.elements, effort).into_iter();
        let recipes = transforms.map(|transform| Recipe {
            transform,
            planes: vec![plane; transform.planes()],
        });
        return recipes.map(|recipe| coded(&recipe)).collect();
    }
    match ranking.options.effort {
        Effort::Max => ranking.close(tensor.len()).skip(1).map(coded).collect(),
        Effort::Fast | Effort::Balanced => Vec::new(),
    }
}

/// Returns the smaller of a palette and a sparse frame. Cheap exact tests are done
/// first.
fn palette_or_sparse<E: PackEngine>(
    engine: &E,
    tensor: &[u8],
    ranking: &Ranking,
) -> Option<Vec<u8>> {
    let width = element_bytes(ranking.elements.dtype)?;
    let EncodeOptions {
        effort, families, ..
    } = ranking.options;
    let mut trial = Trial {
        engine,
        effort,
        is_thorough: tensor.len() <= SMALL_BYTES,
        max_bytes: ranking.expected_bytes() * PRUNE_STRUCTURED,
        elements_repeat: ranking.elements_repeat,
    };
    let split = match families.contains(Family::Palette) {
        true => palette_frame::PaletteSplit::new(tensor, width, MAX_VALUES),
        false => None,
    };
    let palette = split.and_then(|split| {
        let codings = trial.for_palette(split.index())?;
        split.encode(engine, &codings)
    });
    if let Some(frame) = &palette {
        trial.max_bytes = trial.max_bytes.min(frame.len() as f64 * PRUNE_STRUCTURED);
    }
    let zeros_percent = match families.contains(Family::Sparse) {
        true => zeros_percent(tensor, width),
        false => 0,
    };
    if zeros_percent < MIN_ZEROS_PERCENT {
        return palette;
    }
    if zeros_percent >= MOSTLY_ZERO_PERCENT {
        trial.is_thorough |= effort != Effort::Max;
        trial.max_bytes = f64::INFINITY;
    }
    let sparse =
        trial
            .for_sparse(tensor, width.into())
            .into_iter()
            .map(|(transform, [bitmap, values])| {
                sparse::encode_streams(engine, tensor, width, transform, [&bitmap, &values])
            });
    palette.into_iter().chain(sparse).min_by_key(Vec::len)
}

/// The transform of the values of a sparse frame, and the codings to try on its
/// bitmap and on its values.
type SparseTrial = (turbo::TurboTransform, [Vec<ZstdCoding>; 2]);

/// Determines from samples which codings of a frame's streams are worth trying.
struct Trial<'a, E> {
    engine: &'a E,
    effort: Effort,
    /// True to try every coding without sampling.
    is_thorough: bool,
    /// No coding is worth trying if the expected length of the frame exceeds this.
    max_bytes: f64,
    /// True if a search in whole elements may find more than a search in planes.
    elements_repeat: bool,
}

impl<E: PackEngine> Trial<'_, E> {
    /// Returns the codings to try on the index of a palette frame, or `None` if the
    /// frame is expected to be too long.
    fn for_palette(&self, index: &[u8]) -> Option<Vec<ZstdCoding>> {
        if self.is_thorough {
            return Some(self.every_coding());
        }
        let sample = sample::windows(index, Sample::QUICK).concat();
        let scale = index.len() as f64 / sample.len().max(1) as f64;
        let (bytes, codings) = self.codings(&[sample], scale, false);
        (bytes <= self.max_bytes).then_some(codings)
    }

    /// Returns the transforms and codings to try on a sparse frame, or none if the
    /// frame is expected to be too long.
    fn for_sparse(&self, tensor: &[u8], width: usize) -> Vec<SparseTrial> {
        let every = || [self.every_coding(), self.every_coding()];
        if self.is_thorough {
            let transforms = [
                turbo::TurboTransform::BytePlane,
                turbo::TurboTransform::Opaque,
            ];
            return transforms.map(|transform| (transform, every())).into();
        }
        let windows = sample::windows(tensor, Sample::QUICK);
        let repeats = self.elements_repeat;
        // Repeated values may be far apart, so long pieces are needed to see them.
        let mut sample = match repeats {
            true => sample::pieces(tensor).concat(),
            false => windows.concat(),
        };
        let scale = tensor.len() as f64 / sample.len() as f64;
        sample.truncate(sample.len() / width * width);
        let (bitmap, values) = transform::sparse::split(&sample, width);
        let planes = (0..width).map(|plane| {
            let mut bytes = vec![0; values.len() / width];
            byteplane::split(&values, width, plane, 0, &mut bytes);
            bytes
        });
        let (bitmap_bytes, bitmap) = self.codings(&[bitmap], scale, repeats);
        let mut cut = self.codings(&planes.collect::<Vec<_>>(), scale, repeats);
        let mut transform = turbo::TurboTransform::BytePlane;
        if repeats {
            let whole = self.codings(&[values], scale, repeats);
            if whole.0 < cut.0 {
                (cut, transform) = (whole, turbo::TurboTransform::Opaque);
            }
        }
        let (value_bytes, values) = cut;
        match bitmap_bytes + value_bytes <= self.max_bytes {
            true => vec![(transform, [bitmap, values])],
            false => Vec::new(),
        }
    }

    /// Returns the expected total size of streams that are `scale` times as long as
    /// these samples, and the codings to try on them. If `repeats`, a search is
    /// tried on all of each sample.
    fn codings(&self, samples: &[Vec<u8>], scale: f64, repeats: bool) -> (f64, Vec<ZstdCoding>) {
        let spec = SampleSpec {
            effort: self.effort,
            scale,
            piece_bytes: Sample::QUICK.piece_bytes,
            repeats,
            mantissas: false,
            is_part: false,
        };
        let (mut huffman, mut smaller) = (0.0, 0.0);
        for sample in samples {
            let estimate = ZstdEstimate::of(self.engine, sample, spec);
            huffman += estimate.huffman;
            smaller += estimate.huffman.min(estimate.search);
        }
        let mut codings = self.every_coding();
        if smaller > huffman * (1.0 - plane_choice::SEARCH_MIN_GAIN) {
            codings.truncate(1);
        }
        (smaller, codings)
    }

    /// Returns all codings of this effort, the fastest first.
    fn every_coding(&self) -> Vec<ZstdCoding> {
        let search = ZstdCoding::Search(self.effort.search_level());
        vec![ZstdCoding::Huffman, search]
    }
}

/// Returns whether a palette or sparse frame of `tensor` may be shorter than
/// `len_bytes` bytes.
pub(super) fn may_be_below(len_bytes: usize, tensor: TensorRef, options: EncodeOptions) -> bool {
    let Some(width) = element_bytes(tensor.dtype) else {
        return false;
    };
    let (tensor, families) = (tensor.bytes, options.families);
    let is_sparse = || zeros_percent(tensor, width) >= MIN_ZEROS_PERCENT;
    let is_palette = || {
        let width = usize::from(width);
        let body = &tensor[..tensor.len() / width * width];
        let split = palette::split(body, width, MAX_VALUES as usize);
        split.is_some_and(|(values, index)| {
            // A codebook is sorted and compresses to at best half of its size.
            let min_bytes = entropy_bits(&count(&index)) / 8.0 + (values.len() * width / 2) as f64;
            min_bytes <= len_bytes as f64
        })
    };
    (families.contains(Family::Sparse) && is_sparse())
        || (families.contains(Family::Palette) && is_palette())
}

/// Returns the percentage of zero elements, rounded down, or 0 if less than one
/// percent of a sample is zero.
fn zeros_percent(tensor: &[u8], width: u8) -> usize {
    let width = usize::from(width);
    let zeros_in = |part: &[u8]| count_zeros(&part[..part.len() / width * width], width);
    // The whole tensor is counted only if at least one percent of a sample is zero.
    let windows = sample::windows(tensor, Sample::QUICK);
    let sampled: usize = windows.iter().map(|window| window.len() / width).sum();
    let seen: usize = windows.into_iter().map(zeros_in).sum();
    if seen * 100 < sampled {
        return 0;
    }
    zeros_in(tensor) * 100 / (tensor.len() / width).max(1)
}
