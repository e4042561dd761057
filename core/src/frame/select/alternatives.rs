//! Frames for tensors with a structure that planes do not see: many exact
//! zeros, or few distinct values. Cheap exact tests come first.

use alloc::vec::Vec;

use super::{Effort, element_bytes};
use crate::dtype::Dtype;
use crate::engine::{PackEngine, ZstdCoding};
use crate::frame::{palette, sparse, turbo};
use crate::transform::sparse::count_zeros;

/// Largest tensor that is looked at, in bytes. Neither kind of frame can be
/// written block by block, so a packer has to hold one in memory whatever it
/// has been allowed; and its reader has to decode all of it for one row.
/// The layers of models of about 8 billion parameters are below this.
const MOST_BYTES: usize = 128 << 20;

/// Least share of zeros, in parts of a hundred, for a sparse frame: its bitmap
/// costs one bit per element.
const LEAST_ZEROS_PERCENT: usize = 10;

/// Most values of a palette: what an index of one byte can tell apart.
const MOST_VALUES: u32 = 256;

/// The smallest sparse or palette frame of `tensor`, or `None` where the
/// tensor is not of that kind or is too large.
///
/// A packer that has coded the planes by [`super::recipe`] block by block
/// takes this frame instead if it is strictly smaller, as [`super::encode`]
/// does.
#[must_use]
pub fn alternative<E: PackEngine>(
    engine: &E,
    tensor: &[u8],
    dtype: Option<Dtype>,
    effort: Effort,
) -> Option<Vec<u8>> {
    let width = element_bytes(dtype)?;
    if tensor.is_empty() || tensor.len() > MOST_BYTES {
        return None;
    }
    let codings = [
        ZstdCoding::Huffman,
        ZstdCoding::Search(effort.search_level()),
    ];
    let palette = palette::encode(engine, tensor, width, MOST_VALUES, &codings);
    let sparse = enough_zeros(tensor, width).then(|| {
        let planes = turbo::Transform::BytePlane;
        sparse::encode(engine, tensor, width, planes, &codings)
    });
    match (palette, sparse) {
        (Some(a), Some(b)) if b.len() < a.len() => Some(b),
        (Some(a), _) => Some(a),
        (None, b) => b,
    }
}

fn enough_zeros(tensor: &[u8], width: u8) -> bool {
    let width = usize::from(width);
    let count = tensor.len() / width;
    let zeros = count_zeros(&tensor[..count * width], width);
    zeros > 0 && zeros * 100 >= count * LEAST_ZEROS_PERCENT
}
