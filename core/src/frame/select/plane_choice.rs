//! Chooses what to try on each plane from its estimates.
//!
//! Gains and shares are fractions of a size in bytes; a constant named
//! `*_DIVISOR` stands for the fraction 1/n.

use super::Effort;
use super::estimate::Estimate;
use crate::engine::ZstdCoding;
use crate::entropy::zstd::MIN_GAIN_DIVISOR;
use crate::frame::z4ai::{BlockCodecs, Codec, PlaneRecipe};

/// The gain below which literals are stored uncompressed, as a share of the
/// plane: Huffman codes that are estimated to gain less are counted as stored.
const ZSTD_MIN_GAIN: f64 = 1.0 / MIN_GAIN_DIVISOR as f64;
/// The least gain of a search over Huffman codes, as a share of the Huffman
/// size, at which the search is worth its time for packer and reader.
pub const SEARCH_MIN_GAIN: f64 = 0.01;
/// The same threshold for [`Effort::Max`], which accepts slower decoding.
const SEARCH_MIN_GAIN_AT_MAX: f64 = 0.003;
/// The gain of a search up to which Huffman codes are still tried on every
/// block as well, because the sample may be wrong: where a tensor has rows of
/// zeros, it mixes them with other rows, but blocks do not.
const TRY_BOTH_BELOW: f64 = 0.5;
/// The same threshold for [`Effort::Fast`].
const TRY_BOTH_BELOW_FAST: f64 = 0.04;

/// The length, in bits per byte, below which codes are so short that whole bits
/// cost Huffman codes noticeably: planes of any size then try rANS.
const RANS_MAX_BITS: f64 = 2.0;
/// What rANS of order 1 has to gain on a plane of longer codes, as 1/n of it.
const LONG_CODE_MIN_GAIN_DIVISOR: usize = 50;
/// rANS is pruned if its estimate is more than this times the best other one.
const PRUNE_RANS: f64 = 1.1;
/// The longest plane, in bytes, that takes rANS for longer codes too. A plane of
/// this size decodes faster than a request for it is answered; larger ones
/// should stay fast to read.
const RANS_MAX_PLANE_BYTES: usize = 1 << 20;
/// What rANS has to gain on such a plane, as 1/n of the plane: a thirtieth of a
/// bit for each byte, about what it gains on ordinary weights.
const RANS_MIN_GAIN_DIVISOR: usize = 252;
/// What rANS has to gain on such a plane in addition, as 1/n of all coded planes
/// of the tensor, of which this plane may be a small part.
const RANS_MIN_TENSOR_GAIN_DIVISOR: f64 = 450.0;
/// What rANS has to gain on a plane of short codes, as 1/n of the plane.
const SHORT_CODE_MIN_GAIN_DIVISOR: usize = 1000;
/// The longest plane, in bytes, that is held in memory together with its coded
/// form, for [`Effort::Balanced`] and [`Effort::Max`].
const BALANCED_WHOLE_PLANE_BYTES: usize = 1 << 25;
const MAX_WHOLE_PLANE_BYTES: usize = 1 << 28;

/// [`Effort::Max`] stores a plane as noise if the smallest estimate is above
/// this share of the plane.
const NOISE: f64 = 0.9995;
/// [`Effort::Max`] prunes a search whose trial at a low level is more than this
/// times the best estimate: a higher level does not make up for that.
const PRUNE_SEARCH: f64 = 1.03;
/// [`Effort::Max`] prunes rANS of order 1 if its estimate is more than this times
/// the best one.
const PRUNE_ORDER1: f64 = 1.02;

const fn both(level: i32) -> BlockCodecs {
    BlockCodecs {
        huffman: true,
        search: Some(ZstdCoding::Search(level)),
        ..BlockCodecs::HUFFMAN
    }
}
const fn both_wide(level: i32) -> BlockCodecs {
    BlockCodecs {
        wide: true,
        ..both(level)
    }
}

/// The share of a plane that may be left after coding for its blocks to be
/// wide: at 1/8, a block of 8 MiB takes at most 1 MiB, which is what a reader of
/// a few rows fetches.
const WIDE_SHARE: f64 = 0.125;

/// The chunk sizes, in bytes, that are compared for adaptive rANS tables.
const CHUNKS: [u32; 3] = [1 << 15, 1 << 16, 1 << 18];

/// Codecs for short codes. The last one is dropped if the estimate for order 1
/// is not below that for order 0.
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
const BALANCED_WIDE: &[Codec; 5] = &balanced(both_wide(3));

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

/// Returns what to try on a plane of a tensor that is too small to be sampled.
pub fn unsampled(effort: Effort) -> PlaneRecipe {
    match effort {
        Effort::Max => PlaneRecipe::Smallest(MAX_SEARCH_FAR),
        Effort::Fast | Effort::Balanced => PlaneRecipe::Blocks(both(effort.search_level())),
    }
}

/// Huffman codes without a search.
pub const HUFFMAN: PlaneRecipe = PlaneRecipe::Blocks(BlockCodecs::HUFFMAN);

/// Returns what to try on a plane whose byte counts rule out a search.
pub fn counted(effort: Effort) -> PlaneRecipe {
    match effort {
        Effort::Fast => HUFFMAN,
        Effort::Balanced | Effort::Max => PlaneRecipe::HuffmanOrRans {
            min_gain_divisor: RANS_MIN_GAIN_DIVISOR,
            search_outliers_below: 0,
        },
    }
}

/// Returns the sum of the estimates in bytes, each coded by Huffman codes or by
/// a search, whichever is smaller.
pub fn coded_bytes<'a>(estimates: impl IntoIterator<Item = &'a Estimate>) -> f64 {
    let coded = |part: &Estimate| part.huffman.min(part.search);
    estimates.into_iter().map(coded).sum()
}

/// How a tensor repeats itself.
#[derive(Debug, Clone, Copy)]
pub struct Repeats {
    /// Over distances beyond the reach of blocks.
    pub far: bool,
    /// Over any distance.
    pub near: bool,
}

/// Returns what to try on a plane, and the bytes that its sample is expected to
/// take.
///
/// The plane is `len_bytes` long and its parts have the estimates `parts`. All
/// planes together take `all_coded_bytes` of the sample ([`coded_bytes`]).
pub fn choose(
    parts: &[Estimate],
    len_bytes: usize,
    all_coded_bytes: f64,
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
    if let ([part], true) = (parts, may_hold) {
        // The encoder compares real sizes; Huffman codes of bounded length are a
        // little longer than the estimate.
        let rans = part.rans.min(part.order1);
        if cost.min(rans) * 8.0 < part.len * RANS_MAX_BITS && rans < cost * PRUNE_RANS {
            let is_wide = cost.min(rans) <= part.len * WIDE_SHARE;
            let codecs = if is_wide { BALANCED_WIDE } else { BALANCED };
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
            return (
                prefer_fast(BALANCED, LONG_CODE_MIN_GAIN_DIVISOR),
                part.order1,
            );
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // above 0
        let divisor = (part.len * RANS_MIN_TENSOR_GAIN_DIVISOR / all_coded_bytes) as usize;
        let min_gain_divisor = divisor.clamp(1, RANS_MIN_GAIN_DIVISOR);
        // A sample that shows a quarter of the gain is enough for the encoder to
        // count the whole plane.
        let min_gain = part.len / (4 * min_gain_divisor) as f64;
        if len_bytes <= RANS_MAX_PLANE_BYTES && !search && part.rans + min_gain < cost {
            let recipe = PlaneRecipe::HuffmanOrRans {
                min_gain_divisor,
                search_outliers_below: search_outliers_below(parts),
            };
            return (recipe, part.rans);
        }
    }
    let codecs = BlockCodecs {
        huffman,
        search: search.then_some(ZstdCoding::Search(effort.search_level())),
        wide: cost <= parts.iter().map(|part| part.len).sum::<f64>() * WIDE_SHARE,
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

/// Returns three quarters of the Huffman size of the part that compresses best,
/// in 256ths of that part.
fn search_outliers_below(parts: &[Estimate]) -> u8 {
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

/// Returns every codec that is not pruned, for [`Effort::Max`].
fn smallest(parts: &[Estimate], far: bool, near: bool) -> (PlaneRecipe, f64) {
    let cost: f64 = parts.iter().map(Estimate::smallest).sum();
    let len: f64 = parts.iter().map(|part| part.len).sum();
    let search = coded_bytes(parts);
    let huffman: f64 = parts.iter().map(|part| part.huffman).sum();
    let search_gains = search < huffman * (1.0 - SEARCH_MIN_GAIN_AT_MAX);
    // The last codec is rANS of order 1.
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
