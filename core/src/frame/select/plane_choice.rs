//! Chooses the codecs to try on each plane from its estimates.
//!
//! Gains and fractions refer to sizes in bytes. A constant named `*_DIVISOR` is
//! the n of a fraction 1/n.

use super::Effort;
use super::estimate::PlaneEstimate;
use crate::engine::ZstdCoding;
use crate::entropy::zstd::MIN_GAIN_DIVISOR;
use crate::frame::z4ai::{BlockCodecs, Codec, PlaneRecipe, SEARCH_BLOCK_BYTES, Transform};

/// The gain, as a fraction of the plane, below which a zstd encoder stores
/// literals uncompressed. Planes with a smaller estimated gain count as stored.
const ZSTD_MIN_GAIN: f64 = 1.0 / MIN_GAIN_DIVISOR as f64;
/// The least gain of a search over Huffman codes, as a fraction of the Huffman
/// size, that justifies the time it costs packer and reader.
pub(crate) const SEARCH_MIN_GAIN: f64 = 0.01;
/// The equivalent of [`SEARCH_MIN_GAIN`] for [`Effort::Max`], which accepts
/// slower decoding.
const SEARCH_MIN_GAIN_AT_MAX: f64 = 0.003;
/// If the gain of a search is below this fraction, Huffman codes are tried on
/// every block as well, because the sample may mislead: in a tensor with rows of
/// zeros, a sample mixes them with other rows, whereas a block may not.
const TRY_BOTH_BELOW: f64 = 0.5;
/// The equivalent of [`TRY_BOTH_BELOW`] for [`Effort::Fast`].
const TRY_BOTH_BELOW_FAST: f64 = 0.04;

/// Below this length, in bits per byte, codes are so short that rounding to whole
/// bits costs Huffman codes noticeably, so planes of any size also try rANS.
const RANS_MAX_BITS: f64 = 2.0;
/// The gain that rANS of order 1 must have on a plane with longer codes, as 1/n
/// of the plane.
const ORDER1_MIN_GAIN_DIVISOR: usize = 50;
/// The equivalent of [`ORDER1_MIN_GAIN_DIVISOR`] for order 0. On ordinary weights,
/// rANS gains less than half of this, and decodes several times as slowly.
const ORDER0_MIN_GAIN_DIVISOR: usize = 100;
/// The largest number of planes of a tensor whose planes may be coded by rANS, except
/// at [`Effort::Max`]. Elements of ordinary dtypes have at most 8 bytes.
const MAX_RANS_PLANES: usize = 8;
/// rANS is skipped if its estimate is more than this factor times the best other
/// estimate.
const PRUNE_RANS: f64 = 1.1;
/// The gain that rANS must have on a plane with short codes, as 1/n of the plane.
const SHORT_CODE_MIN_GAIN_DIVISOR: usize = 1000;
/// The longest plane, in bytes, that is buffered together with its coded bytes,
/// for [`Effort::Balanced`] and for [`Effort::Max`].
const BALANCED_WHOLE_PLANE_BYTES: usize = 1 << 25;
const MAX_WHOLE_PLANE_BYTES: usize = 1 << 28;

/// [`Effort::Max`] stores a plane uncompressed if the smallest estimate is above
/// this fraction of the plane.
const NOISE: f64 = 0.9995;
/// [`Effort::Max`] skips a search if its trial at a low level gives more than
/// this factor times the best estimate; a higher level does not make up for that.
const PRUNE_SEARCH: f64 = 1.03;
/// [`Effort::Max`] skips rANS of order 1 if its estimate is more than this factor
/// times the best one.
const PRUNE_ORDER1: f64 = 1.02;

const fn both(level: i32) -> BlockCodecs {
    BlockCodecs {
        huffman: true,
        search: Some(ZstdCoding::Search(level)),
        ..BlockCodecs::HUFFMAN
    }
}
const fn both_in(level: i32, search_block_bytes: u32) -> BlockCodecs {
    BlockCodecs {
        search_block_bytes,
        ..both(level)
    }
}

/// A plane has blocks of 8 MiB if coding leaves at most this fraction of it. At 1/8, such
/// a block takes at most 1 MiB, which a reader of a few rows has to fetch.
const WIDE_SHARE: f64 = 0.125;
const WIDE_BLOCK_BYTES: u32 = 8 << 20;

/// A plane of up to 64 MiB is one block if coding leaves at most this fraction of it, as
/// in masks and tensors of zeros. A reader of a few rows fetches at most 512 KiB, but
/// decodes the whole plane. The first occurrences in a block cost so much of such a plane
/// that several blocks would take up to a third more. They cost even more of the sample,
/// so the actual fraction is usually far below this one.
const WHOLE_SHARE: f64 = 1.0 / 128.0;
const WHOLE_BLOCK_BYTES: u32 = 64 << 20;

/// Returns the maximum length in bytes of a searched block of a plane of `len_bytes`, of
/// which coding leaves the fraction `share`.
fn search_block_bytes(len_bytes: usize, share: f64) -> u32 {
    if share <= WHOLE_SHARE && len_bytes <= WHOLE_BLOCK_BYTES as usize {
        WHOLE_BLOCK_BYTES
    } else if share <= WIDE_SHARE {
        WIDE_BLOCK_BYTES
    } else {
        SEARCH_BLOCK_BYTES
    }
}

/// The chunk lengths, in bytes, that are compared for adaptive rANS tables.
const CHUNKS: [u32; 3] = [1 << 15, 1 << 16, 1 << 18];

/// The codecs for short codes. The last one is left out unless the estimate for
/// order 1 is below the estimate for order 0.
const fn balanced(blocks: BlockCodecs) -> [Codec; 5] {
    [
        Codec::Blocks(blocks),
        Codec::RansAdaptive(CHUNKS[1]),
        Codec::RansAdaptive(CHUNKS[2]),
        Codec::Rans,
        Codec::RansOrder1,
    ]
}
const BALANCED: &[Codec; 5] = &balanced(both(3));
const BALANCED_WIDE: &[Codec; 5] = &balanced(both_in(3, WIDE_BLOCK_BYTES));
const BALANCED_WHOLE: &[Codec; 5] = &balanced(both_in(3, WHOLE_BLOCK_BYTES));

const BALANCED_FAR: &[Codec] = &[
    Codec::Blocks(both(3)),
    Codec::Zstd(ZstdCoding::Long(3)),
    Codec::RansAdaptive(CHUNKS[1]),
];
const MAX: &[Codec] = &[
    Codec::Blocks(BlockCodecs::HUFFMAN),
    Codec::Rans,
    Codec::RansAdaptive(CHUNKS[0]),
    Codec::RansAdaptive(CHUNKS[1]),
    Codec::RansAdaptive(CHUNKS[2]),
    Codec::RansOrder1,
];
const MAX_SEARCH: &[Codec] = &max_search();
const MAX_SEARCH_FAR: &[Codec] = &{
    let [blocks, rans, short, middle, long, order1] = max_search();
    let far = Codec::Zstd(ZstdCoding::Long(19));
    [blocks, far, rans, short, middle, long, order1]
};

const fn max_search() -> [Codec; 6] {
    [
        Codec::Blocks(both(19)),
        Codec::Rans,
        Codec::RansAdaptive(CHUNKS[0]),
        Codec::RansAdaptive(CHUNKS[1]),
        Codec::RansAdaptive(CHUNKS[2]),
        Codec::RansOrder1,
    ]
}

/// Returns the recipe for a plane of a tensor that is too small to be sampled.
pub(crate) fn unsampled(effort: Effort) -> PlaneRecipe {
    match effort {
        Effort::Max => PlaneRecipe::Smallest(MAX_SEARCH_FAR),
        Effort::Fast | Effort::Balanced => PlaneRecipe::Blocks(both(effort.search_level())),
    }
}

/// The recipe for Huffman codes without a search.
pub const HUFFMAN: PlaneRecipe = PlaneRecipe::Blocks(BlockCodecs::HUFFMAN);

/// The recipe for a plane that rANS may make smaller than Huffman codes, and a search does
/// not.
pub const HUFFMAN_OR_RANS: PlaneRecipe = PlaneRecipe::Smallest(&[
    Codec::Blocks(BlockCodecs::HUFFMAN),
    Codec::Rans,
    Codec::RansAdaptive(CHUNKS[1]),
]);

/// Returns the sum of the estimates in bytes, each the smaller of the Huffman
/// size and the size after a search.
fn coded_bytes<'a>(estimates: impl IntoIterator<Item = &'a PlaneEstimate>) -> f64 {
    let coded = |part: &PlaneEstimate| part.huffman.min(part.search);
    estimates.into_iter().map(coded).sum()
}

/// The distances over which the content of a tensor repeats.
#[derive(Debug, Clone, Copy)]
pub struct Repeats {
    /// True if the content repeats over distances beyond the reach of a block.
    pub far: bool,
    /// True if the content repeats over any distance.
    pub near: bool,
}

/// Returns the recipe for a plane and the expected coded size of its sample in
/// bytes.
///
/// The plane is `len_bytes` bytes long, and `parts` are the estimates of its
/// parts. `transform` splits the tensor into planes.
pub fn choose(
    parts: &[PlaneEstimate],
    len_bytes: usize,
    transform: Transform,
    effort: Effort,
    Repeats { far: repeats, near }: Repeats,
) -> (PlaneRecipe, f64) {
    if effort == Effort::Max && len_bytes <= MAX_WHOLE_PLANE_BYTES {
        return smallest(parts, repeats, near);
    }
    let mut cost = 0.0;
    let (mut huffman, mut search) = (false, false);
    let try_both_below = match effort {
        Effort::Fast => TRY_BOTH_BELOW_FAST,
        Effort::Balanced | Effort::Max => TRY_BOTH_BELOW,
    };
    for part in parts {
        let coded = part.huffman.min(part.search);
        if coded > part.len * (1.0 - ZSTD_MIN_GAIN) {
            cost += part.len;
            continue;
        }
        let search_gain = 1.0 - part.search / part.huffman;
        search |= search_gain >= SEARCH_MIN_GAIN;
        huffman |= search_gain < try_both_below;
        cost += if search_gain < SEARCH_MIN_GAIN {
            part.huffman
        } else {
            part.search
        };
    }
    let may_hold = effort != Effort::Fast && len_bytes <= BALANCED_WHOLE_PLANE_BYTES;
    if may_hold && repeats {
        return (prefer_fast(BALANCED_FAR, SHORT_CODE_MIN_GAIN_DIVISOR), cost);
    }
    // A reader of some rows needs all of a plane that rANS has coded. Among many planes,
    // one of them is too short for rANS to gain much.
    let may_hold = may_hold && transform.planes() <= MAX_RANS_PLANES;
    if let ([part], true) = (parts, may_hold) {
        // The encoder compares actual sizes. Huffman codes of bounded length are
        // a little longer than the estimate.
        let rans = part.rans.min(part.order1);
        if cost.min(rans) * 8.0 < part.len * RANS_MAX_BITS && rans < cost * PRUNE_RANS {
            let share = cost.min(rans) / part.len;
            let codecs = match search_block_bytes(len_bytes, share) {
                WHOLE_BLOCK_BYTES => BALANCED_WHOLE,
                WIDE_BLOCK_BYTES => BALANCED_WIDE,
                _ => BALANCED,
            };
            let codecs = match part.order1 < part.rans {
                true => codecs,
                false => &codecs[..4],
            };
            return (
                prefer_fast(codecs, SHORT_CODE_MIN_GAIN_DIVISOR),
                cost.min(rans),
            );
        }
        if part.is_order1_ahead() {
            return (prefer_fast(BALANCED, ORDER1_MIN_GAIN_DIVISOR), part.order1);
        }
        let min_gain = part.len / ORDER0_MIN_GAIN_DIVISOR as f64;
        if !search && part.rans + min_gain < cost {
            // The estimate promises more than most planes gain, so it does not decide on
            // the transform.
            let codecs = &BALANCED[..4];
            return (prefer_fast(codecs, ORDER0_MIN_GAIN_DIVISOR), cost);
        }
    }
    let len: f64 = parts.iter().map(|part| part.len).sum();
    let codecs = BlockCodecs {
        huffman,
        search: search.then_some(ZstdCoding::Search(effort.search_level())),
        search_block_bytes: search_block_bytes(len_bytes, cost / len),
        search_outliers_below: match search {
            true => 0,
            false => search_outliers_below(parts),
        },
    };
    if huffman || search {
        (PlaneRecipe::Blocks(codecs), cost)
    } else {
        (PlaneRecipe::Store, cost)
    }
}

/// Returns three quarters of the smallest Huffman size of any part, in 256ths of
/// the part's length.
fn search_outliers_below(parts: &[PlaneEstimate]) -> u8 {
    let shares = parts.iter().map(|part| part.huffman / part.len.max(1.0));
    let min = shares.fold(1.0, f64::min);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most 192
    let below = (min * 192.0) as u8;
    below
}

fn prefer_fast(codecs: &'static [Codec], min_gain_divisor: usize) -> PlaneRecipe {
    PlaneRecipe::PreferFast {
        codecs,
        min_gain_divisor,
    }
}

/// Returns a recipe with every codec that is not pruned, for [`Effort::Max`].
fn smallest(parts: &[PlaneEstimate], far: bool, near: bool) -> (PlaneRecipe, f64) {
    let cost: f64 = parts.iter().map(PlaneEstimate::smallest).sum();
    let len: f64 = parts.iter().map(|part| part.len).sum();
    let search = coded_bytes(parts);
    let huffman: f64 = parts.iter().map(|part| part.huffman).sum();
    let search_gains = search < huffman * (1.0 - SEARCH_MIN_GAIN_AT_MAX);
    // The last codec of each list is rANS of order 1.
    let order1: f64 = parts.iter().map(|part| part.order1).sum();
    let without_order1 = |codecs: &'static [Codec]| match order1 < cost * PRUNE_ORDER1 {
        true => codecs,
        false => &codecs[..codecs.len() - 1],
    };
    let searched = search_gains && search < cost * PRUNE_SEARCH;
    if far || near && searched {
        return (PlaneRecipe::Smallest(MAX_SEARCH_FAR), cost);
    }
    if searched {
        return (PlaneRecipe::Smallest(without_order1(MAX_SEARCH)), cost);
    }
    if cost > len * NOISE {
        return (PlaneRecipe::Store, len);
    }
    (PlaneRecipe::Smallest(without_order1(MAX)), cost)
}
