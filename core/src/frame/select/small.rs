//! Tensors too small for a sample: judged by counts of all their bytes, in a
//! tenth of the time that it takes to code them in every way there is.

use alloc::vec::Vec;

use super::{Effort, Ranking, alternatives, element_bytes, repeats, sample, ways};
use crate::bytes::index;
use crate::dtype::Dtype;
use crate::engine::PackEngine;
use crate::entropy::order0::{self, count, entropy_bits, huffman_bits};
use crate::entropy::rans;
use crate::frame::plane::HEAD_BYTES;
use crate::frame::z4ai::{self, PlaneRecipe, Recipe, Transform};

/// Codes of less than this, in bits for each byte, leave so little that a
/// search may find more, whether words repeat or not.
const SHORT_CODE_BITS: usize = 2;

/// Cuts whose sizes are expected to be this close are both made: about how far
/// off what is expected can be.
const CLOSE_BYTES: usize = 8;

/// The smallest of the frames of planes, each coded byte by byte; `None` for a
/// tensor in which other ways may find more: words repeat, elements are few or
/// zero, or codes are short.
pub fn encode<'a, E: PackEngine>(
    engine: &E,
    tensor: &'a [u8],
    dtype: Option<Dtype>,
    effort: Effort,
) -> Option<z4ai::Encoded<'a>> {
    let has_repeats = match element_bytes(dtype) {
        Some(_) => repeats::are_in::<4, 2>(tensor),
        None => repeats::are_in::<4, 1>(tensor),
    };
    if has_repeats {
        return None;
    }
    // Of no bytes, for the transforms that this dtype and effort have.
    let cuts: Vec<Cut> = Ranking::new(engine, &[], dtype, effort)
        .transforms()
        .map(|transform| Cut::new(tensor, transform, effort))
        .collect::<Option<_>>()?;
    let least = cuts.iter().map(|cut| cut.expected_len_bytes).min()?;
    if alternatives::may_be_below(least, tensor, dtype) {
        return None;
    }
    let close = cuts
        .iter()
        .filter(|cut| cut.expected_len_bytes <= least + CLOSE_BYTES);
    let made = close.map(|cut| z4ai::Encoded::new(engine, tensor, &cut.recipe));
    // The first of equals: byte planes decode faster than bit fields.
    made.min_by_key(z4ai::Encoded::len_bytes)
}

/// A way to cut a tensor, and the frame expected of it.
struct Cut {
    recipe: Recipe,
    expected_len_bytes: usize,
}

impl Cut {
    /// `None` where a part of a plane may hold more than its counts tell.
    fn new(tensor: &[u8], transform: Transform, effort: Effort) -> Option<Self> {
        let mut expected_len_bytes = z4ai::head(transform, &[]).len();
        let mut planes = Vec::with_capacity(transform.planes());
        for parts in sample::planes(&[tensor], transform) {
            // The tensor itself has no repeats.
            let is_new = transform != Transform::Opaque;
            let parts = parts.iter().map(|part| Part::new(part, is_new));
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

/// What to do with a plane of these parts, and the bytes it is expected to
/// take.
fn plane(parts: &[Part], effort: Effort) -> (PlaneRecipe, usize) {
    /// A table of blocks, and what it has for each of them.
    const TABLE_BYTES: usize = 8;
    const TABLE_BLOCK_BYTES: usize = 4;
    let len_bytes: usize = parts.iter().map(|part| part.len_bytes).sum();
    let (recipe, coded) = match (parts, ways::of_counted_plane(effort)) {
        ([only], PlaneRecipe::HuffmanOrRans { gain_parts })
            if only.rans_bytes < only.huffman_bytes.saturating_sub(len_bytes / gain_parts) =>
        {
            (PlaneRecipe::HuffmanOrRans { gain_parts }, only.rans_bytes)
        }
        ([only], _) => (ways::HUFFMAN, only.huffman_bytes),
        _ => {
            let blocks = parts
                .iter()
                .map(|part| part.huffman_bytes + TABLE_BLOCK_BYTES);
            (ways::HUFFMAN, TABLE_BYTES + blocks.sum::<usize>())
        }
    };
    if coded < len_bytes {
        (recipe, coded)
    } else {
        (PlaneRecipe::Store, len_bytes)
    }
}

/// A part of a plane, and its length in codes for single bytes.
struct Part {
    len_bytes: usize,
    /// As a zstd frame.
    huffman_bytes: usize,
    /// No more than a guess that it is too long where that is plain.
    rans_bytes: usize,
}

impl Part {
    /// `None` where a search may find more: it is no good for noise, in which
    /// nothing repeats, if that `may_repeat` at all.
    fn new(bytes: &[u8], may_repeat: bool) -> Option<Self> {
        /// What rANS gains on Huffman codes at the most, in parts of a hundred,
        /// where these take two bits and more; and bytes of its table for every
        /// value.
        const RANS_MOST_GAIN: usize = 8;
        const TABLE_VALUE_BYTES: usize = 2;
        /// A frame that holds one byte many times.
        const RUN_BYTES: usize = 11;
        /// A block that gains nothing is left as it is in its frame.
        const RAW_HEADS_BYTES: usize = 10;
        let len_bytes = bytes.len();
        let counts = count(bytes);
        let values = order0::values(&counts);
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
        let rans_least = bits / 800 * (100 - RANS_MOST_GAIN) + TABLE_VALUE_BYTES * values;
        let rans_bytes = match rans_least < huffman_bytes.min(len_bytes) {
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

/// About what a zstd frame of literals takes that have these counts and whose
/// codes come to `bits` bits: lengths of codes, of which the description of a
/// code consists, are near logarithms of counts.
fn huffman_frame_bytes(counts: &[u64; 256], len_bytes: usize, bits: usize) -> usize {
    /// Heads of frame, block and literals; and lengths of streams, if they are
    /// several.
    const HEADS_BYTES: usize = 15;
    const STREAMS_BYTES: usize = 7;
    /// Longest literals in one stream.
    const ONE_STREAM_BYTES: usize = 1023;
    /// What a coded description has besides lengths, and that of equal ones.
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
        // Four bits for each.
        description = description.min(1 + last.div_ceil(2));
        flat = len_bytes * (last.ilog2() as usize + 1) / 8 + FLAT_DESCRIPTION_BYTES;
    }
    let streams = match len_bytes > ONE_STREAM_BYTES {
        true => STREAMS_BYTES,
        false => 0,
    };
    (bits / 8 + description).min(flat) + HEADS_BYTES + streams
}

#[cfg(all(test, feature = "pure-encoder"))]
mod tests {
    use super::*;
    use crate::engine::encode_literals;

    /// Values of a generator, `count` of them, that are less frequent the
    /// larger they are if `is_skewed`.
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
    fn counts_tell_what_a_frame_takes() {
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
            let expected = Part::new(&bytes, true).expect("noise").huffman_bytes;
            let mut frame = Vec::new();
            encode_literals(&bytes, &mut frame);
            let off = frame.len().abs_diff(expected);
            assert!(off <= 12, "{len} {values}: {} for {expected}", frame.len());
        }
    }
}
