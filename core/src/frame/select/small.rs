//! Tensors too small for a sample: all their bytes are counted, which takes a
//! tenth of the time that trying every codec would take.

use alloc::vec::Vec;

use super::{Effort, Ranking, element_bytes, plane_choice, repeats, sample, structured};
use crate::bytes::index;
use crate::dtype::Dtype;
use crate::engine::PackEngine;
use crate::entropy::histogram::{self, count, entropy_bits, huffman_bits};
use crate::entropy::rans;
use crate::frame::plane::HEAD_BYTES;
use crate::frame::z4ai::{self, PlaneRecipe, Recipe, Transform};

/// The code length, in bits per byte, below which a search may find more than
/// Huffman codes even where no words repeat.
const SHORT_CODE_BITS: usize = 2;

/// Transforms whose expected sizes differ by at most this many bytes are all
/// encoded: about the error of the expected size.
const CLOSE_BYTES: usize = 8;

/// Returns the smallest frame of planes whose bytes are coded independently.
///
/// Returns `None` for a tensor that another codec may make smaller: words repeat,
/// there are few distinct elements or many zeros, or codes are short.
pub fn encode<'a, E: PackEngine>(
    engine: &E,
    tensor: &'a [u8],
    dtype: Option<Dtype>,
    effort: Effort,
) -> Option<z4ai::EncodedPlanes<'a>> {
    let has_repeats = match element_bytes(dtype) {
        Some(_) => repeats::are_in::<4, 2>(tensor),
        None => repeats::are_in::<4, 1>(tensor),
    };
    if has_repeats {
        return None;
    }
    // A ranking of an empty tensor lists the transforms of this dtype and effort.
    let transforms: Vec<CountedTransform> = Ranking::new(engine, &[], dtype, effort)
        .transforms()
        .map(|transform| CountedTransform::new(tensor, transform, effort))
        .collect::<Option<_>>()?;
    let expected = transforms.iter().map(|counted| counted.expected_len_bytes);
    let min_len_bytes = expected.min()?;
    if structured::may_be_below(min_len_bytes, tensor, dtype) {
        return None;
    }
    let close = transforms
        .iter()
        .filter(|counted| counted.expected_len_bytes <= min_len_bytes + CLOSE_BYTES);
    let encoded = close.map(|counted| z4ai::EncodedPlanes::new(engine, tensor, &counted.recipe));
    // The first among equals: byte planes decode faster than bit fields.
    encoded.min_by_key(z4ai::EncodedPlanes::len_bytes)
}

/// A transform of the tensor, and the size expected from the counts of its
/// planes.
struct CountedTransform {
    recipe: Recipe,
    expected_len_bytes: usize,
}

impl CountedTransform {
    /// Returns `None` if a search may compress a part of a plane better than its
    /// counts suggest.
    fn new(tensor: &[u8], transform: Transform, effort: Effort) -> Option<Self> {
        let mut expected_len_bytes = z4ai::head(transform, &[]).len();
        let mut planes = Vec::with_capacity(transform.planes());
        for parts in sample::planes(&[tensor], transform) {
            // The bytes of the tensor itself have been checked for repeats.
            let may_repeat = transform != Transform::Opaque;
            let parts = parts.iter().map(|part| CountedPart::new(part, may_repeat));
            let (recipe, len_bytes) = plane(&parts.collect::<Option<Vec<_>>>()?, effort);
            planes.push(recipe);
            expected_len_bytes += HEAD_BYTES + len_bytes;
        }
        Some(Self {
            recipe: Recipe { transform, planes },
            expected_len_bytes,
        })
    }
}

/// Returns what to try on a plane of these parts, and the bytes that it is
/// expected to take.
fn plane(parts: &[CountedPart], effort: Effort) -> (PlaneRecipe, usize) {
    /// Bytes of a block table without its entries, and of each entry.
    const TABLE_BYTES: usize = 8;
    const TABLE_BLOCK_BYTES: usize = 4;
    let len_bytes: usize = parts.iter().map(|part| part.len_bytes).sum();
    let (recipe, coded) = match (parts, plane_choice::counted(effort)) {
        ([only], PlaneRecipe::HuffmanOrRans { min_gain_divisor })
            if only.rans_bytes
                < only
                    .huffman_bytes
                    .saturating_sub(len_bytes / min_gain_divisor) =>
        {
            (
                PlaneRecipe::HuffmanOrRans { min_gain_divisor },
                only.rans_bytes,
            )
        }
        ([only], _) => (plane_choice::HUFFMAN, only.huffman_bytes),
        _ => {
            let blocks = parts
                .iter()
                .map(|part| part.huffman_bytes + TABLE_BLOCK_BYTES);
            (plane_choice::HUFFMAN, TABLE_BYTES + blocks.sum::<usize>())
        }
    };
    if coded < len_bytes {
        (recipe, coded)
    } else {
        (PlaneRecipe::Store, len_bytes)
    }
}

/// A part of a plane, and its expected lengths in codes of single bytes.
struct CountedPart {
    len_bytes: usize,
    /// Expected length as a zstd frame.
    huffman_bytes: usize,
    /// Expected length in rANS; [`usize::MAX`] where rANS clearly loses.
    rans_bytes: usize,
}

impl CountedPart {
    /// Returns `None` if a search may find more: codes are short, or words
    /// repeat. The latter is checked only if `may_repeat`.
    fn new(bytes: &[u8], may_repeat: bool) -> Option<Self> {
        /// The most that rANS gains on Huffman codes of two bits and more, in
        /// percent, and the least bytes of its table for each value.
        const RANS_MAX_GAIN_PERCENT: usize = 8;
        const TABLE_VALUE_BYTES: usize = 2;
        /// Bytes of a frame that repeats a single byte.
        const RUN_BYTES: usize = 11;
        /// Bytes of the headers of a frame whose block is stored uncompressed.
        const RAW_HEADS_BYTES: usize = 10;
        let len_bytes = bytes.len();
        let counts = count(bytes);
        let values = histogram::values(&counts);
        if values < 2 {
            return Some(Self {
                len_bytes,
                huffman_bytes: RUN_BYTES,
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
        let rans_bytes = match min_rans_bytes < huffman_bytes.min(len_bytes) {
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

/// Returns the approximate length of a zstd frame of literals that have these
/// counts and whose codes take `bits` bits.
///
/// The description of a code lists code lengths, which are close to logarithms
/// of counts.
fn huffman_frame_bytes(counts: &[u64; 256], len_bytes: usize, bits: usize) -> usize {
    /// Bytes of the headers of frame, block and literals, and of the lengths of
    /// streams if there are four.
    const HEADS_BYTES: usize = 15;
    const STREAMS_BYTES: usize = 7;
    /// The most literals, in bytes, that are coded as one stream.
    const ONE_STREAM_BYTES: usize = 1023;
    /// Bytes of a compressed description without its code lengths, and of the
    /// description of a flat code.
    const DESCRIPTION_BYTES: usize = 5;
    const FLAT_DESCRIPTION_BYTES: usize = 8;
    let last = counts.iter().rposition(|&count| count > 0).unwrap_or(0);
    let mut classes = [0u64; 16];
    for count in &counts[..last] {
        classes[count
            .checked_ilog2()
            .map_or(0, |log| log as usize + 1)
            .min(15)] += 1;
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most 128
    let mut description = DESCRIPTION_BYTES + (entropy_bits(&classes) / 8.0) as usize;
    let mut flat = usize::MAX;
    if last < 128 {
        // Four bits for each length.
        description = description.min(1 + last.div_ceil(2));
        flat = len_bytes * (last.ilog2() as usize + 1) / 8 + FLAT_DESCRIPTION_BYTES;
    }
    let streams = match len_bytes > ONE_STREAM_BYTES {
        true => STREAMS_BYTES,
        false => 0,
    };
    (bits / 8 + description).min(flat) + HEADS_BYTES + streams
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::zstd::encode_literals;

    /// Returns `len` pseudo-random bytes below `values`; if `is_skewed`, larger
    /// ones are less frequent.
    fn noise(len: usize, values: u64, is_skewed: bool) -> Vec<u8> {
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            (state >> 33) % values
        };
        let mut value = || {
            if is_skewed {
                next() * next() / values
            } else {
                next()
            }
        };
        (0..len).map(|_| value().to_le_bytes()[0]).collect()
    }

    #[test]
    fn the_length_of_a_frame_follows_from_counts() {
        for (len, values, is_skewed) in [
            (300, 20, false),
            (384, 100, true),
            (1000, 128, false),
            (2048, 128, false),
            (2048, 24, true),
            (4096, 200, true),
            (16384, 60, true),
        ] {
            let bytes = noise(len, values, is_skewed);
            let expected = CountedPart::new(&bytes, true).expect("noise").huffman_bytes;
            let mut frame = Vec::new();
            encode_literals(&bytes, &mut frame);
            let off = frame.len().abs_diff(expected);
            assert!(off <= 12, "{len} {values}: {} for {expected}", frame.len());
        }
    }
}
