//! Frames that have to be made in memory: for tensors with a structure that
//! planes do not see, many exact zeros or few distinct values, and for
//! [`Effort::Max`] the transforms that looked second best.

use alloc::vec;
use alloc::vec::Vec;
use core::iter;

use super::estimate::{Judge, ZstdEstimate};
use super::{Effort, Ranking, SMALL_BYTES, element_bytes, sample, ways};
use crate::dtype::Dtype;
use crate::engine::{PackEngine, ZstdCoding};
use crate::entropy::order0::{count, entropy_bits};
use crate::frame::z4ai::{self, Recipe};
use crate::frame::{palette as palette_frame, sparse, turbo};
use crate::transform::sparse::count_zeros;
use crate::transform::{self, byteplane, palette};

/// Largest tensor that is looked at, in bytes. None of these frames is
/// written block by block, so a packer has to hold one in memory whatever it
/// has been allowed; and the reader of a sparse or palette frame has to decode
/// all of it for one row. The layers of models of about 8 billion parameters
/// are below this.
pub(super) const MOST_BYTES: usize = 128 << 20;

/// Least share of zeros, in parts of a hundred, for a sparse frame: its bitmap
/// costs one bit per element.
const LEAST_ZEROS_PERCENT: usize = 10;

/// Most values of a palette: what an index of one byte can tell apart.
const MOST_VALUES: u32 = 256;

/// A frame expected to come to more than this times another one is not made.
const HOPELESS: f64 = 1.1;

/// The smallest of those frames for `tensor`, or `None` where there is none to
/// be made, the tensor is too large, or none is expected to come near its
/// planes.
pub fn smallest<E: PackEngine>(engine: &E, tensor: &[u8], ranking: &Ranking) -> Option<Vec<u8>> {
    if tensor.is_empty() || tensor.len() > MOST_BYTES {
        return None;
    }
    let structured = structured(engine, tensor, ranking);
    let planes = other_planes(engine, tensor, ranking);
    // The first of equals: planes decode faster.
    planes.into_iter().chain(structured).min_by_key(Vec::len)
}

/// Small tensors are cut in every way there is; of others `Max` tries the
/// transforms that came second and later, where they may be close.
fn other_planes<E: PackEngine>(engine: &E, tensor: &[u8], ranking: &Ranking) -> Vec<Vec<u8>> {
    let coded = |recipe: &Recipe| z4ai::encode(engine, tensor, recipe);
    if tensor.len() <= SMALL_BYTES {
        let plane = ways::of_small_plane(ranking.effort);
        let recipes = ranking.transforms().map(|transform| Recipe {
            transform,
            planes: vec![plane; transform.planes()],
        });
        return recipes.map(|recipe| coded(&recipe)).collect();
    }
    match ranking.effort {
        Effort::Max => ranking.close(tensor.len()).skip(1).map(coded).collect(),
        Effort::Fast | Effort::Balanced => Vec::new(),
    }
}

/// The smaller of a palette and a sparse frame. Cheap exact tests come first.
fn structured<E: PackEngine>(engine: &E, tensor: &[u8], ranking: &Ranking) -> Option<Vec<u8>> {
    let width = element_bytes(ranking.dtype)?;
    let mut trial = Trial {
        engine,
        effort: ranking.effort,
        is_thorough: ranking.effort == Effort::Max || tensor.len() <= SMALL_BYTES,
        most_bytes: ranking.expected_bytes() * HOPELESS,
    };
    let palette = palette_frame::Split::new(tensor, width, MOST_VALUES).and_then(|split| {
        let codings = trial.of_palette(split.index())?;
        split.encode(engine, &codings)
    });
    if let Some(frame) = &palette {
        trial.most_bytes = trial.most_bytes.min(frame.len() as f64 * HOPELESS);
    }
    let cuts: &[turbo::Transform] = match ranking.effort {
        _ if !enough_zeros(tensor, width) => &[],
        Effort::Max => &[turbo::Transform::BytePlane, turbo::Transform::Opaque],
        Effort::Fast | Effort::Balanced => &[turbo::Transform::BytePlane],
    };
    let sparse = cuts.iter().filter_map(|&cut| {
        let codings = trial.of_sparse(tensor, width.into())?;
        Some(sparse::encode(engine, tensor, width, cut, &codings))
    });
    palette.into_iter().chain(sparse).min_by_key(Vec::len)
}

/// Tells from samples which ways to code the streams of a frame are worth their
/// time: none if no way is expected to keep the frame below `most_bytes`.
struct Trial<'a, E> {
    engine: &'a E,
    effort: Effort,
    /// Every way is.
    is_thorough: bool,
    most_bytes: f64,
}

impl<E: PackEngine> Trial<'_, E> {
    fn of_palette(&self, index: &[u8]) -> Option<Vec<ZstdCoding>> {
        if self.is_thorough {
            return Some(self.every_coding());
        }
        let sample = sample::windows(index, sample::SHORT).concat();
        let scale = index.len() as f64 / sample.len().max(1) as f64;
        self.codings(&[sample], scale)
    }

    /// For the bitmap and the planes of the values.
    fn of_sparse(&self, tensor: &[u8], width: usize) -> Option<Vec<ZstdCoding>> {
        if self.is_thorough {
            return Some(self.every_coding());
        }
        let mut sample = sample::windows(tensor, sample::SHORT).concat();
        let scale = tensor.len() as f64 / sample.len() as f64;
        sample.truncate(sample.len() / width * width);
        let (bitmap, values) = transform::sparse::split(&sample, width);
        let planes = (0..width).map(|plane| {
            let mut bytes = vec![0; values.len() / width];
            byteplane::split(&values, width, plane, 0, &mut bytes);
            bytes
        });
        let streams: Vec<Vec<u8>> = iter::once(bitmap).chain(planes).collect();
        self.codings(&streams, scale)
    }

    /// For streams that are `scale` times as long as these samples.
    fn codings(&self, samples: &[Vec<u8>], scale: f64) -> Option<Vec<ZstdCoding>> {
        let judge = Judge {
            effort: self.effort,
            scale,
            piece_bytes: sample::SHORT.piece_bytes,
            repeats: true,
        };
        let (mut huffman, mut smaller) = (0.0, 0.0);
        for sample in samples {
            let bytes = ZstdEstimate::of(self.engine, sample, judge);
            huffman += bytes.huffman;
            smaller += bytes.huffman.min(bytes.search);
        }
        if smaller > self.most_bytes {
            return None;
        }
        let mut codings = self.every_coding();
        if smaller > huffman * (1.0 - ways::SEARCH_GAIN) {
            codings.truncate(1);
        }
        Some(codings)
    }

    /// The quickest first.
    fn every_coding(&self) -> Vec<ZstdCoding> {
        let level = self.effort.search_level();
        let mut codings = vec![ZstdCoding::Huffman, ZstdCoding::Search(level)];
        if self.effort == Effort::Max {
            codings.push(ZstdCoding::Long(level));
        }
        codings
    }
}

/// Whether a palette or sparse frame of `tensor` may be below `len_bytes`.
pub(super) fn may_be_below(len_bytes: usize, tensor: &[u8], dtype: Option<Dtype>) -> bool {
    let Some(width) = element_bytes(dtype) else {
        return false;
    };
    enough_zeros(tensor, width) || {
        let width = usize::from(width);
        let body = &tensor[..tensor.len() / width * width];
        let split = palette::split(body, width, MOST_VALUES as usize);
        split.is_some_and(|(values, index)| {
            // Codebooks are sorted, of which half is left at the least.
            let least = entropy_bits(&count(&index)) / 8.0 + (values.len() * width / 2) as f64;
            least <= len_bytes as f64
        })
    }
}

fn enough_zeros(tensor: &[u8], width: u8) -> bool {
    let width = usize::from(width);
    let zeros_in = |part: &[u8]| count_zeros(&part[..part.len() / width * width], width);
    // Where a sample has next to none there is no need to count.
    let windows = sample::windows(tensor, sample::SHORT);
    let sampled: usize = windows.iter().map(|window| window.len() / width).sum();
    let seen: usize = windows.into_iter().map(zeros_in).sum();
    if seen * 100 < sampled {
        return false;
    }
    let zeros = zeros_in(tensor);
    zeros > 0 && zeros * 100 >= tensor.len() / width * LEAST_ZEROS_PERCENT
}
