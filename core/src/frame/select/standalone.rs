//! Frames that stand alone and so may be of any family.

use alloc::vec;
use alloc::vec::Vec;

use super::alternatives::MOST_BYTES;
use super::estimate::{Estimate, Judge};
use super::{Effort, Encoded, Ranking, alternatives, element_bytes};
use crate::dtype::Dtype;
use crate::engine::{PackEngine, ZstdCoding};
use crate::frame::auto::{self, Choice};
use crate::frame::z4ai;

/// Where coding leaves more than this share of a stream, z4ai's readers are
/// spared its slowest methods, and our encoders brotli.
const WORTH_BROTLI: f64 = 0.8;
/// A search expected to come to more than this times the best is not tried.
const HOPELESS: f64 = 1.15;
/// Length of the pieces on which a search is tried.
const PIECE_BYTES: usize = 16 << 10;
/// Longest stream that becomes a single brotli stream, in bytes. brotli looks
/// back 4 MiB and uses one thread.
#[cfg(feature = "brotli-encoder")]
const BROTLI_BYTES: u32 = 1 << 23;

/// The smallest frame found for `tensor`.
///
/// Up to [`Effort::Balanced`] that is the frame [`super::encode`] makes.
/// [`Effort::Max`] also tries `ZARA`, which z4ai reads everywhere but in
/// containers.
#[must_use]
pub fn standalone<E: PackEngine>(
    engine: &E,
    tensor: &[u8],
    dtype: Option<Dtype>,
    effort: Effort,
) -> Vec<u8> {
    if effort != Effort::Max {
        return super::encode(engine, tensor, dtype, effort);
    }
    let ranking = Ranking::new(engine, tensor, dtype, effort);
    let choice = super::Choice::of(&ranking, alternatives::smallest(engine, tensor, &ranking));
    let mut best = Encoded::chosen(engine, tensor, choice).into_frame(engine);
    if tensor.is_empty() || tensor.len() > MOST_BYTES {
        return best;
    }
    for recipe in ranking.close(tensor.len()) {
        let transform = match recipe.transform {
            z4ai::Transform::Opaque => auto::Transform::Raw(element_bytes(dtype).unwrap_or(1)),
            z4ai::Transform::BytePlane(width) => auto::Transform::BytePlane(width),
            z4ai::Transform::BitField(format) => auto::Transform::BitPack(format),
        };
        let frame = auto::encode_by(engine, tensor, transform, |stream| choices(engine, stream));
        if frame.len() < best.len() {
            best = frame;
        }
    }
    best
}

fn choices<E: PackEngine>(engine: &E, stream: &[u8]) -> Vec<Choice> {
    let how = Judge {
        effort: Effort::Max,
        scale: 1.0,
        piece_bytes: PIECE_BYTES,
        repeats: true,
    };
    let estimate = Estimate::of(engine, stream, how);
    let mut choices = vec![Choice::Zstd(ZstdCoding::Huffman), Choice::Rans];
    if estimate.search < estimate.least() * HOPELESS {
        let level = Effort::Max.search_level();
        choices.push(Choice::Zstd(ZstdCoding::Search(level)));
        choices.push(Choice::Zstd(ZstdCoding::Long(level)));
    }
    if estimate.least() < estimate.len * WORTH_BROTLI {
        choices.extend(brotli(stream.len()));
    }
    choices
}

#[cfg(feature = "brotli-encoder")]
fn brotli(len_bytes: usize) -> Option<Choice> {
    const QUALITY: u8 = 11;
    Some(if len_bytes <= BROTLI_BYTES as usize {
        Choice::Brotli(QUALITY)
    } else {
        Choice::BrotliBlocks {
            quality: QUALITY,
            block_bytes: BROTLI_BYTES,
        }
    })
}

#[cfg(not(feature = "brotli-encoder"))]
fn brotli(_: usize) -> Option<Choice> {
    None
}
