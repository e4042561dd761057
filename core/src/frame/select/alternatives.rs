//! Frames that have to be made in memory: for tensors with a structure that
//! planes do not see, many exact zeros or few distinct values, and for
//! [`Effort::Max`] the transforms that looked second best.

use alloc::vec;
use alloc::vec::Vec;

use super::{Effort, SMALL_BYTES, element_bytes, ranked, transforms, ways};
use crate::dtype::Dtype;
use crate::engine::{PackEngine, ZstdCoding};
use crate::frame::z4ai::{self, Recipe};
use crate::frame::{palette, sparse, turbo};
use crate::transform::sparse::count_zeros;

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

/// A transform expected to come to more than this times the best one is not
/// tried by [`Effort::Max`].
pub(super) const HOPELESS: f64 = 1.15;

/// The smallest of those frames for `tensor`, or `None` where there is none to
/// be made or the tensor is too large.
#[must_use]
pub fn alternative<E: PackEngine>(
    engine: &E,
    tensor: &[u8],
    dtype: Option<Dtype>,
    effort: Effort,
) -> Option<Vec<u8>> {
    if tensor.is_empty() || tensor.len() > MOST_BYTES {
        return None;
    }
    let structured = structured(engine, tensor, dtype, effort);
    let planes = other_planes(engine, tensor, dtype, effort);
    // The first of equals: planes decode faster.
    planes.into_iter().chain(structured).min_by_key(Vec::len)
}

/// Small tensors are cut in every way there is; of others `Max` tries the
/// transforms that [`super::recipe`] has not taken, where they may be close.
fn other_planes<E: PackEngine>(
    engine: &E,
    tensor: &[u8],
    dtype: Option<Dtype>,
    effort: Effort,
) -> Vec<Vec<u8>> {
    let recipes: Vec<Recipe> = if tensor.len() <= SMALL_BYTES {
        let all = transforms(dtype, effort).into_iter();
        all.map(|transform| Recipe {
            transform,
            planes: (0..transform.planes())
                .map(|_| ways::of_small_plane(effort))
                .collect(),
        })
        .collect()
    } else if effort == Effort::Max {
        let ranked = ranked(engine, tensor, dtype, effort);
        let least = ranked.first().map_or(0.0, |(cost, _)| *cost);
        let others = ranked.into_iter().skip(1);
        others
            .take_while(|(cost, _)| *cost <= least * HOPELESS)
            .map(|(_, recipe)| recipe)
            .collect()
    } else {
        Vec::new()
    };
    let frames = recipes.iter();
    frames
        .map(|recipe| z4ai::encode(engine, tensor, recipe))
        .collect()
}

/// The smaller of a palette and a sparse frame. Cheap exact tests come first.
fn structured<E: PackEngine>(
    engine: &E,
    tensor: &[u8],
    dtype: Option<Dtype>,
    effort: Effort,
) -> Option<Vec<u8>> {
    let width = element_bytes(dtype)?;
    let level = effort.search_level();
    let mut codings = vec![ZstdCoding::Huffman, ZstdCoding::Search(level)];
    if effort == Effort::Max {
        codings.push(ZstdCoding::Long(level));
    }
    let palette = palette::encode(engine, tensor, width, MOST_VALUES, &codings);
    let cuts: &[turbo::Transform] = match effort {
        _ if !enough_zeros(tensor, width) => &[],
        Effort::Max => &[turbo::Transform::BytePlane, turbo::Transform::Opaque],
        Effort::Fast | Effort::Balanced => &[turbo::Transform::BytePlane],
    };
    let sparse = cuts
        .iter()
        .map(|&cut| sparse::encode(engine, tensor, width, cut, &codings));
    palette.into_iter().chain(sparse).min_by_key(Vec::len)
}

fn enough_zeros(tensor: &[u8], width: u8) -> bool {
    let width = usize::from(width);
    let count = tensor.len() / width;
    let zeros = count_zeros(&tensor[..count * width], width);
    zeros > 0 && zeros * 100 >= count * LEAST_ZEROS_PERCENT
}
