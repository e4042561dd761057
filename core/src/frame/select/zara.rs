//! Chooses the codecs of `ZARA` frames, which z4ai reads everywhere except
//! inside containers.

use alloc::vec;
use alloc::vec::Vec;

use super::estimate::{PlaneEstimate, SampleSpec};
use super::{Effort, EncodeOptions, Ranking, element_bytes};
use crate::engine::{PackEngine, ZstdCoding};
use crate::frame::Family;
use crate::frame::z4ai;
use crate::frame::zara::{self, StreamCodec};

/// Brotli is tried if the smallest estimate is below this fraction of the
/// stream. Above it, the gain is not worth slow encoding here and slow decoding
/// in z4ai.
const BROTLI_MAX_SHARE: f64 = 0.8;
/// A search is skipped if its estimate is more than this factor times the
/// smallest one.
const PRUNE_STREAM_SEARCH: f64 = 1.15;
/// The length, in bytes, of the samples on which a search is tried.
const PIECE_BYTES: usize = 16 << 10;
/// The longest stream, in bytes, that becomes a single brotli stream. Brotli
/// looks back 4 MiB and uses one thread.
#[cfg(feature = "brotli-encoder")]
const BROTLI_BYTES: u32 = 1 << 23;

/// Returns the smallest `ZARA` frame for `tensor`, if the options allow this
/// family. These frames are slow to make, so only [`Effort::Max`] tries them.
pub fn smallest<E: PackEngine>(engine: &E, tensor: &[u8], ranking: &Ranking) -> Option<Vec<u8>> {
    let EncodeOptions {
        effort, families, ..
    } = ranking.options;
    if effort != Effort::Max || !families.contains(Family::Zara) {
        return None;
    }
    let frames = ranking.close(tensor.len()).map(|recipe| {
        let transform = match recipe.transform {
            z4ai::Transform::Opaque => {
                zara::ZaraTransform::Raw(element_bytes(ranking.elements.dtype).unwrap_or(1))
            }
            z4ai::Transform::BytePlane(width) => zara::ZaraTransform::BytePlane(width),
            z4ai::Transform::BitField(format) => zara::ZaraTransform::BitPack(format),
        };
        zara::encode_by(engine, tensor, transform, |stream| {
            stream_codecs(engine, stream)
        })
    });
    frames.min_by_key(Vec::len)
}

fn stream_codecs<E: PackEngine>(engine: &E, stream: &[u8]) -> Vec<StreamCodec> {
    let spec = SampleSpec {
        effort: Effort::Max,
        scale: 1.0,
        piece_bytes: PIECE_BYTES,
        repeats: true,
        mantissas: false,
        is_part: false,
    };
    let estimate = PlaneEstimate::of(engine, stream, None, spec);
    let mut codecs = vec![StreamCodec::Zstd(ZstdCoding::Huffman), StreamCodec::Rans];
    if estimate.search < estimate.smallest() * PRUNE_STREAM_SEARCH {
        let level = Effort::Max.search_level();
        codecs.push(StreamCodec::Zstd(ZstdCoding::Search(level)));
        codecs.push(StreamCodec::Zstd(ZstdCoding::Long(level)));
    }
    if estimate.smallest() < estimate.len * BROTLI_MAX_SHARE {
        codecs.extend(brotli(stream.len()));
    }
    codecs
}

#[cfg(feature = "brotli-encoder")]
fn brotli(len_bytes: usize) -> Option<StreamCodec> {
    const QUALITY: u8 = 11;
    Some(if len_bytes <= BROTLI_BYTES as usize {
        StreamCodec::Brotli(QUALITY)
    } else {
        StreamCodec::BrotliBlocks {
            quality: QUALITY,
            block_bytes: BROTLI_BYTES,
        }
    })
}

#[cfg(not(feature = "brotli-encoder"))]
fn brotli(_: usize) -> Option<StreamCodec> {
    None
}
