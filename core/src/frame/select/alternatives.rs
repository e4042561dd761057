//! Frames that have to be made in memory: for tensors with a structure that
//! planes do not see, many exact zeros or few distinct values, and for
//! [`Effort::Max`] the transforms that looked second best.

use alloc::vec;
use alloc::vec::Vec;

use super::{Effort, Ranking, SMALL_BYTES, element_bytes, sample, ways};
use crate::dtype::Dtype;
use crate::engine::{PackEngine, ZstdCoding};
use crate::entropy::order0::{count, entropy_bits};
use crate::frame::z4ai::{self, Recipe};
use crate::frame::{palette as palette_frame, sparse, turbo};
use crate::transform::palette;
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

/// The smallest of those frames for `tensor`, or `None` where there is none to
/// be made or the tensor is too large.
#[must_use]
pub fn alternative<E: PackEngine>(engine: &E, tensor: &[u8], ranking: &Ranking) -> Option<Vec<u8>> {
    if tensor.is_empty() || tensor.len() > MOST_BYTES {
        return None;
    }
    let structured = structured(engine, tensor, ranking.dtype, ranking.effort);
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
    let palette = palette_frame::encode(engine, tensor, width, MOST_VALUES, &codings);
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

/// Whether a palette or sparse frame of `tensor` may be below `len_bytes`.
pub(super) fn may_be_below(len_bytes: usize, tensor: &[u8], dtype: Option<Dtype>) -> bool {
    let Some(width) = element_bytes(dtype) else {
        return false;
    };
    enough_zeros(tensor, width) || {
        let width = usize::from(width);
        let body = &tensor[..tensor.len() / width * width];
        let values = palette::codebook(body, width, MOST_VALUES as usize);
        values.is_some_and(|values| {
            let index = count(&palette::index(body, width, &values));
            // Codebooks are sorted, of which half is left at the least.
            entropy_bits(&index) / 8.0 + (values.len() * width / 2) as f64 <= len_bytes as f64
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
