//! Chooses the encoding of tensors that are too small to be sampled. All their bytes are
//! counted, which takes a tenth of the time of trying every codec.

use alloc::vec::Vec;

use super::ranking::Elements;
use super::{
    Effort, EncodeOptions, element_bytes, plane_choice, ranking, repeats, sample, structured,
};
use crate::TensorRef;
use crate::bytes::index;
use crate::engine::PackEngine;
use crate::entropy::histogram::{self, count, huffman_bits};
use crate::entropy::zstd::cost::{RAW_HEADS_BYTES, RUN_FRAME_BYTES, huffman_frame_bytes};
use crate::entropy::{blocks, rans};
use crate::frame::plane::HEAD_BYTES;
use crate::frame::z4ai::{self, PlaneRecipe, Recipe, Transform};

/// Below this code length, in bits per byte, a search may find more than Huffman
/// codes even if no words repeat.
const SHORT_CODE_BITS: usize = 2;

/// All transforms whose expected size is within this many bytes of the smallest
/// are encoded. This is about the error of the expected size.
const CLOSE_BYTES: usize = 8;

/// Returns the smallest frame of planes whose bytes are coded independently.
///
/// Returns `None` for a tensor that another codec may make smaller, because words
/// repeat, there are few distinct elements or many zeros, or codes are short.
pub fn encode<'a, E: PackEngine>(
    engine: &E,
    tensor: TensorRef<'a>,
    options: EncodeOptions,
) -> Option<z4ai::EncodedPlanes<'a>> {
    let TensorRef { bytes, dtype, .. } = tensor;
    let effort = options.effort;
    let has_repeats = match element_bytes(dtype) {
        Some(_) => repeats::are_in::<4, 2>(bytes),
        None => repeats::are_in::<4, 1>(bytes),
    };
    if has_repeats {
        return None;
    }
    let elements = Elements::of(tensor);
    let transforms: Vec<CountedTransform> = ranking::transforms(elements, effort)
        .into_iter()
        .map(|transform| CountedTransform::new(bytes, transform, effort))
        .collect::<Option<_>>()?;
    let expected = transforms.iter().map(|counted| counted.expected_len_bytes);
    let min_len_bytes = expected.min()?;
    if structured::may_be_below(min_len_bytes, tensor, options) {
        return None;
    }
    let close = transforms
        .iter()
        .filter(|counted| counted.expected_len_bytes <= min_len_bytes + CLOSE_BYTES);
    let encoded = close.map(|counted| z4ai::EncodedPlanes::new(engine, bytes, &counted.recipe));
    // The first of equal lengths wins: byte planes decode faster than bit fields.
    encoded.min_by_key(z4ai::EncodedPlanes::len_bytes)
}

/// A transform of the tensor and the frame size expected from the byte counts of
/// its planes.
struct CountedTransform {
    recipe: Recipe,
    expected_len_bytes: usize,
}

impl CountedTransform {
    /// Counts the bytes of every plane. Returns `None` if a search may compress a
    /// part of a plane better than its counts suggest.
    fn new(tensor: &[u8], transform: Transform, effort: Effort) -> Option<Self> {
        let mut expected_len_bytes = z4ai::head(transform, &[]).len();
        let mut planes = Vec::with_capacity(transform.planes());
        for parts in sample::planes(&[tensor], transform) {
            // The caller has checked the tensor itself for repeats.
            let may_repeat = transform != Transform::Opaque;
            let part = |part: &Vec<u8>| CountedPart::new(part, may_repeat, effort);
            let parts = parts.iter().map(part);
            let (recipe, len_bytes) = plane(&parts.collect::<Option<Vec<_>>>()?);
            planes.push(recipe);
            expected_len_bytes += HEAD_BYTES + len_bytes;
        }
        Some(Self {
            recipe: Recipe { transform, planes },
            expected_len_bytes,
        })
    }
}

/// Returns the recipe for a plane that consists of `parts`, and its expected
/// length in bytes.
fn plane(parts: &[CountedPart]) -> (PlaneRecipe, usize) {
    let len_bytes: usize = parts.iter().map(|part| part.len_bytes).sum();
    let (recipe, coded) = match parts {
        [only] if only.rans_bytes < only.huffman_bytes => {
            (plane_choice::HUFFMAN_OR_RANS, only.rans_bytes)
        }
        [only] => (plane_choice::HUFFMAN, only.huffman_bytes),
        _ => {
            let blocks: usize = parts.iter().map(|part| part.huffman_bytes).sum();
            (
                plane_choice::HUFFMAN,
                blocks::table_len_bytes(parts.len()) + blocks,
            )
        }
    };
    if coded < len_bytes {
        (recipe, coded)
    } else {
        (PlaneRecipe::Store, len_bytes)
    }
}

/// A part of a plane and its expected lengths with codecs that code each byte on
/// its own.
struct CountedPart {
    len_bytes: usize,
    /// Expected length as a zstd frame, in bytes.
    huffman_bytes: usize,
    /// Expected length with rANS in bytes, or [`usize::MAX`] if rANS is clearly
    /// larger or not allowed.
    rans_bytes: usize,
}

impl CountedPart {
    /// Counts `bytes`. Returns `None` if a search may find more because codes are
    /// short or words repeat. The latter is checked only if `may_repeat`. Codes of
    /// this length take rANS only at [`Effort::Max`].
    fn new(bytes: &[u8], may_repeat: bool, effort: Effort) -> Option<Self> {
        /// The maximum gain, in percent, of rANS over Huffman codes of two bits
        /// or more, and the minimum size of its table, in bytes per distinct
        /// value.
        const RANS_MAX_GAIN_PERCENT: usize = 8;
        const TABLE_VALUE_BYTES: usize = 2;
        let len_bytes = bytes.len();
        let counts = count(bytes);
        let values = histogram::values(&counts);
        if values < 2 {
            return Some(Self {
                len_bytes,
                huffman_bytes: RUN_FRAME_BYTES,
                rans_bytes: usize::MAX,
            });
        }
        let bits = index(huffman_bits(&counts));
        if bits < len_bytes * SHORT_CODE_BITS || may_repeat && repeats::are_in::<8, 1>(bytes) {
            return None;
        }
        let huffman_bytes =
            huffman_frame_bytes(&counts, len_bytes, bits).min(len_bytes + RAW_HEADS_BYTES);
        let min_rans_bytes =
            bits / 800 * (100 - RANS_MAX_GAIN_PERCENT) + TABLE_VALUE_BYTES * values;
        let is_tried = effort == Effort::Max && min_rans_bytes < huffman_bytes.min(len_bytes);
        let rans_bytes = match is_tried {
            true => rans::shared_len_bytes(&counts).min(rans::adaptive_len_bytes(&[counts])),
            false => usize::MAX,
        };
        Some(Self {
            len_bytes,
            huffman_bytes,
            rans_bytes,
        })
    }
}
