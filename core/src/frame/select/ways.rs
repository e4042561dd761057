//! From the estimates of a plane to what is tried on it.

use super::Effort;
use super::estimate::Estimate;
use crate::engine::ZstdCoding;
use crate::frame::z4ai::{PlaneRecipe, Way, ZstdWays};

/// zstd leaves literals as they are when Huffman gains less than a 64th.
const LEAST_GAIN: f64 = 1.0 / 64.0;
/// A search is worth its time, the packer's and the reader's, if it gains
/// this much on Huffman codes alone.
pub const SEARCH_GAIN: f64 = 0.01;
const MAX_SEARCH_GAIN: f64 = 0.003;
/// Up to this gain both are tried on every block: the sample may be wrong.
const CLOSE: f64 = 0.04;

/// In longer planes only codes as short as this, in bits, where whole bits
/// cost Huffman much.
const RANS_MOST_BITS: f64 = 2.0;
/// rANS is left out where it is expected to be this much worse.
const RANS_HOPELESS: f64 = 1.1;
/// Planes up to this size, in bytes, take less time to decode than to ask
/// for; larger ones should be fast to read.
const RANS_QUICK_BYTES: usize = 1 << 20;
/// What rANS has to gain there, as one part of the plane in so many: a
/// thirtieth of a bit for each byte, about what it gains on weights of a
/// common kind.
const QUICK_PARTS: usize = 252;
/// And as one part in so many of all planes when coded, of which this one may
/// be a small part.
const CODED_PARTS: f64 = 450.0;
/// And where codes are short.
const SHORT_PARTS: usize = 1000;
/// Longest plane that is held in memory with its coded form, in bytes.
const BALANCED_WHOLE_BYTES: usize = 1 << 25;
const MAX_WHOLE_BYTES: usize = 1 << 28;

/// Where the least estimate is above this share of the plane, it is noise even
/// to [`Effort::Max`].
const NOISE: f64 = 0.9995;
/// A long search is left out where a short one is this much worse than the
/// best: a level more does not make up for that.
const HOPELESS: f64 = 1.03;

const fn both(level: i32) -> ZstdWays {
    ZstdWays {
        huffman: true,
        search: Some(ZstdCoding::Search(level)),
        ..ZstdWays::HUFFMAN
    }
}
const fn both_wide(level: i32) -> ZstdWays {
    ZstdWays {
        wide: true,
        ..both(level)
    }
}

/// Blocks are wide where no more than this share of a plane is left: 1 MiB of
/// 8, which is what a reader of some rows fetches.
const WIDE_SHARE: f64 = 0.125;

/// The sizes of chunks for adaptive tables that are worth comparing.
const CHUNKS: [u32; 3] = [1 << 15, 1 << 16, 1 << 18];

/// For codes that are short; the last one where contexts are worth a look.
const fn balanced(blocks: ZstdWays) -> [Way; 5] {
    [
        Way::Blocks(blocks),
        Way::RansAdaptive(CHUNKS[1]),
        Way::RansAdaptive(CHUNKS[2]),
        Way::Rans,
        Way::RansOrder1,
    ]
}
const BALANCED: &[Way; 5] = &balanced(both(3));
const BALANCED_WIDE: &[Way; 5] = &balanced(both_wide(3));

const BALANCED_FAR: &[Way] = &[
    Way::Blocks(both(3)),
    Way::Zstd(ZstdCoding::Long(3)),
    Way::RansAdaptive(CHUNKS[1]),
];
const MAX: &[Way] = &[
    Way::Blocks(ZstdWays::HUFFMAN),
    Way::Rans,
    Way::RansAdaptive(CHUNKS[0]),
    Way::RansAdaptive(CHUNKS[1]),
    Way::RansAdaptive(CHUNKS[2]),
    Way::RansOrder1,
];
const MAX_SEARCH: &[Way] = &[
    Way::Blocks(both(19)),
    Way::Zstd(ZstdCoding::Long(19)),
    Way::Rans,
    Way::RansAdaptive(CHUNKS[0]),
    Way::RansAdaptive(CHUNKS[1]),
    Way::RansAdaptive(CHUNKS[2]),
    Way::RansOrder1,
];

/// What to try on planes too short to be judged.
pub fn of_small_plane(effort: Effort) -> PlaneRecipe {
    match effort {
        Effort::Max => PlaneRecipe::Smallest(MAX_SEARCH),
        Effort::Fast | Effort::Balanced => PlaneRecipe::Blocks(both(effort.search_level())),
    }
}

/// Huffman codes alone.
pub const HUFFMAN: PlaneRecipe = PlaneRecipe::Blocks(ZstdWays::HUFFMAN);

/// What to try on a plane in which there is nothing but single bytes.
pub fn of_counted_plane(effort: Effort) -> PlaneRecipe {
    match effort {
        Effort::Fast => HUFFMAN,
        Effort::Balanced | Effort::Max => PlaneRecipe::HuffmanOrRans {
            gain_parts: QUICK_PARTS,
        },
    }
}

/// Bytes that all planes of these estimates take in Huffman codes or found by
/// a search.
pub fn coded_bytes<'a>(estimates: impl IntoIterator<Item = &'a Estimate>) -> f64 {
    let coded = |part: &Estimate| part.huffman.min(part.search);
    estimates.into_iter().map(coded).sum()
}

/// What to try on a plane of `len_bytes` whose parts have these estimates, where
/// all planes together take `all_coded_bytes` of the sample; and the bytes that
/// this one would take of it.
pub fn choose(
    parts: &[Estimate],
    len_bytes: usize,
    all_coded_bytes: f64,
    effort: Effort,
    repeats: bool,
) -> (PlaneRecipe, f64) {
    if effort == Effort::Max && len_bytes <= MAX_WHOLE_BYTES {
        return smallest(parts, repeats);
    }
    let mut cost = 0.0;
    let (mut huffman, mut search) = (false, false);
    for part in parts {
        let coded = part.huffman.min(part.search);
        if coded > part.len * (1.0 - LEAST_GAIN) {
            cost += part.len;
            continue;
        }
        let search_gain = 1.0 - part.search / part.huffman;
        search |= search_gain >= SEARCH_GAIN;
        huffman |= search_gain < CLOSE;
        cost += if search_gain < SEARCH_GAIN {
            part.huffman
        } else {
            part.search
        };
    }
    let may_hold = effort != Effort::Fast && len_bytes <= BALANCED_WHOLE_BYTES;
    if may_hold && repeats {
        return (fast_first(BALANCED_FAR, SHORT_PARTS), cost);
    }
    if let ([part], true) = (parts, may_hold) {
        // The real sizes decide; Huffman codes of bounded length are a little
        // longer than the estimate.
        let rans = part.rans.min(part.order1);
        if cost.min(rans) * 8.0 < part.len * RANS_MOST_BITS && rans < cost * RANS_HOPELESS {
            let is_wide = cost.min(rans) <= part.len * WIDE_SHARE;
            let ways = if is_wide { BALANCED_WIDE } else { BALANCED };
            let ways = match part.order1 < part.rans {
                true => ways,
                false => &ways[..4],
            };
            return (fast_first(ways, SHORT_PARTS), cost.min(rans));
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // above 0
        let gain_parts = (part.len * CODED_PARTS / all_coded_bytes) as usize;
        let gain_parts = gain_parts.clamp(1, QUICK_PARTS);
        let least_gain = part.len / (4 * gain_parts) as f64;
        if len_bytes <= RANS_QUICK_BYTES && !search && part.rans + least_gain < cost {
            return (PlaneRecipe::HuffmanOrRans { gain_parts }, part.rans);
        }
    }
    let ways = ZstdWays {
        huffman,
        search: search.then_some(ZstdCoding::Search(effort.search_level())),
        wide: cost <= parts.iter().map(|part| part.len).sum::<f64>() * WIDE_SHARE,
        odd_below: if search { 0 } else { odd_below(parts) },
    };
    if huffman || search {
        (PlaneRecipe::Blocks(ways), cost)
    } else {
        (PlaneRecipe::Store, cost)
    }
}

/// Three quarters of what Huffman codes leave of the part that they leave least
/// of, in parts of 256.
fn odd_below(parts: &[Estimate]) -> u8 {
    let shares = parts.iter().map(|part| part.huffman / part.len.max(1.0));
    let least = shares.fold(1.0, f64::min);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // at most 192
    let below = (least * 192.0) as u8;
    below
}

fn fast_first(ways: &'static [Way], parts: usize) -> PlaneRecipe {
    PlaneRecipe::FastFirst { ways, parts }
}

/// Everything that is not hopeless.
fn smallest(parts: &[Estimate], repeats: bool) -> (PlaneRecipe, f64) {
    let cost: f64 = parts.iter().map(Estimate::least).sum();
    let len: f64 = parts.iter().map(|part| part.len).sum();
    let search = coded_bytes(parts);
    let huffman: f64 = parts.iter().map(|part| part.huffman).sum();
    if repeats || (search < huffman * (1.0 - MAX_SEARCH_GAIN) && search < cost * HOPELESS) {
        return (PlaneRecipe::Smallest(MAX_SEARCH), cost);
    }
    if cost > len * NOISE {
        return (PlaneRecipe::Store, len);
    }
    (PlaneRecipe::Smallest(MAX), cost)
}
