//! Detects repeated content in a tensor, both nearby and over distances that an
//! ordinary search does not reach, as in stacked copies of one matrix.

use alloc::collections::BTreeMap;
use alloc::vec;

use super::Effort;
use crate::dtype::Dtype;

/// The least distance of a far repeat, in bytes. A block's own search reaches
/// shorter distances.
const FAR_BYTES: usize = 2 << 20;
/// The longest tensor, in bytes, that is checked for far repeats. The planes of
/// longer tensors exceed every search window.
pub const MAX_TENSOR_BYTES: usize = 1 << 28;
/// One word in `2^ANCHOR_BITS`, selected by its value, is an anchor.
const ANCHOR_BITS: u32 = 10;
/// The number of bytes, starting at an anchor, that must be equal.
const MATCH_BYTES: usize = 64;
/// The number of distinct values that these bytes must have, since mostly-zero
/// content repeats by chance.
const MIN_DISTINCT: u32 = 12;
/// A long-distance search is tried if at least 1/n of all anchors repeat an
/// earlier one. Only a quarter of the pages is read, so the original of an
/// anchor has been read with a probability of one in four: 1/200 observed
/// corresponds to 1/50 in the tensor.
const MIN_REPEATED_DIVISOR: usize = 200;
/// One page in `2^PAGE_BITS`, selected by a hash of its number, is read.
const PAGE_BITS: u32 = 2;
const PAGE_BYTES: usize = 4096;

/// Returns whether content repeats over distances of [`FAR_BYTES`] or more.
///
/// It reads the 8-byte words of a quarter of the pages, since elements and rows
/// usually begin at multiples of 8. The pages are selected pseudo-randomly, so
/// that for any distance, some pairs of pages that far apart are read.
pub(crate) fn are_far_apart(tensor: &[u8], effort: Effort) -> bool {
    if effort == Effort::Fast || tensor.len() <= FAR_BYTES || tensor.len() > MAX_TENSOR_BYTES {
        return false;
    }
    let (pages, _) = tensor.as_chunks::<PAGE_BYTES>();
    let mut last_seen: BTreeMap<u64, usize> = BTreeMap::new();
    let (mut anchors, mut repeated) = (0, 0);
    for (number, page) in pages.iter().enumerate() {
        if mixed(number as u64 + 1) >> (64 - PAGE_BITS) != 0 {
            continue;
        }
        let (words, _) = page.as_chunks::<8>();
        for (index, word) in words.iter().enumerate() {
            let word = u64::from_le_bytes(*word);
            if word.wrapping_mul(SPREAD) >> (64 - ANCHOR_BITS) != 0 {
                continue;
            }
            // In a run of equal words, only the first can be an anchor.
            if index > 0 && u64::from_le_bytes(words[index - 1]) == word {
                continue;
            }
            let at = number * PAGE_BYTES + index * 8;
            let Some(content) = tensor.get(at..at + MATCH_BYTES) else {
                break;
            };
            if distinct(content) < MIN_DISTINCT {
                continue;
            }
            anchors += 1;
            let (parts, _) = content.as_chunks::<8>();
            let hash = parts.iter().fold(0, |hash: u64, part| {
                mixed(hash.rotate_left(5) ^ u64::from_le_bytes(*part))
            });
            if let Some(earlier) = last_seen.insert(hash, at) {
                repeated += usize::from(at - earlier >= FAR_BYTES);
            }
        }
    }
    repeated > 0 && repeated * MIN_REPEATED_DIVISOR >= anchors
}

/// Returns whether more than one in [`NEAR_SHARE`] words of the sampled windows
/// repeats. A search would find such repeats, except in a tensor of few distinct
/// elements.
pub(crate) fn are_near(windows: &[&[u8]]) -> bool {
    let mut seen = vec![0u64; 1 << NEAR_BITS];
    let (mut words, mut repeated) = (0, 0);
    for window in windows {
        // Only aligned words are recorded, but every even offset is compared,
        // which finds all even distances.
        for (at, place) in window.windows(8).enumerate().step_by(2) {
            let Some(word) = place.first_chunk() else {
                break;
            };
            let word = u64::from_le_bytes(*word);
            let noted = &mut seen[(mixed(word) >> (64 - NEAR_BITS)) as usize];
            repeated += usize::from(*noted == word);
            if at % 8 == 0 {
                *noted = word;
                words += 1;
            }
        }
    }
    repeated * NEAR_SHARE > words
}

/// Returns whether more than one in [`ELEMENT_SHARE`] elements of the sampled
/// windows repeats. Only four-byte elements are checked: half-precision weights
/// that were multiplied by a scale per row repeat in this way.
pub(crate) fn are_elements(windows: &[&[u8]], dtype: Option<Dtype>) -> bool {
    if dtype.and_then(Dtype::len_bytes) != Some(4) {
        return false;
    }
    let mut seen = vec![0u32; 1 << NEAR_BITS];
    let (mut elements, mut repeated) = (0, 0);
    for window in windows {
        for element in window.as_chunks::<4>().0 {
            let element = u32::from_le_bytes(*element);
            let noted = &mut seen[(mixed(element.into()) >> (64 - NEAR_BITS)) as usize];
            repeated += usize::from(*noted == element);
            *noted = element;
            elements += 1;
        }
    }
    repeated * ELEMENT_SHARE > elements
}

/// Elements count as repeated if more than 1/n of them occur again.
const ELEMENT_SHARE: usize = 32;

/// The binary logarithm of the number of slots for recorded words.
const NEAR_BITS: u32 = 13;
/// Words count as repeated if more than 1/n of them occur again.
const NEAR_SHARE: usize = 128;

/// Returns whether more than one in [`IN_SHARE`] bytes begins a word that
/// repeats an earlier aligned word. Words at every `STEP`-th offset are
/// compared. Words that begin in the last 15 bytes may be ignored.
pub(crate) fn are_in<const WORD_BYTES: usize, const STEP: usize>(bytes: &[u8]) -> bool {
    const SLOT_BITS: u32 = 10;
    const SLOTS: usize = 1 << SLOT_BITS;
    let mask = u64::MAX >> (u64::BITS as usize - 8 * WORD_BYTES);
    let mut seen = [0u64; SLOTS];
    let mut repeated = 0;
    for places in bytes.windows(16).step_by(8) {
        let Some(&places) = places.first_chunk() else {
            break;
        };
        let places = u128::from_le_bytes(places);
        for place in (0..8).step_by(STEP) {
            #[allow(clippy::cast_possible_truncation)] // keeps the bytes of the word
            let word = (places >> (8 * place)) as u64 & mask;
            // The high bits of the product are well mixed.
            let slot = word.wrapping_mul(SPREAD) >> (u64::BITS - SLOT_BITS);
            let seen = &mut seen[slot as usize % SLOTS];
            repeated += usize::from(*seen == word);
            if place % WORD_BYTES == 0 {
                *seen = word;
            }
        }
    }
    repeated * IN_SHARE > bytes.len()
}

/// A small tensor or plane has repeats if there is more than one repeated word
/// per n bytes.
const IN_SHARE: usize = 256;

/// An odd multiplier that spreads the lower bits of a word into the high bits of
/// the product.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Mixes the bits of a word. The upper bits of the result are mixed best.
fn mixed(word: u64) -> u64 {
    let product = word.wrapping_mul(SPREAD);
    (product ^ product >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// Returns the number of distinct byte values.
fn distinct(bytes: &[u8]) -> u32 {
    let mut seen = [0u64; 4];
    for &byte in bytes {
        seen[usize::from(byte >> 6)] |= 1 << (byte & 63);
    }
    seen.iter().map(|bits| bits.count_ones()).sum()
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// Returns noise that retains `keep` of 256 byte values and replaces the
    /// others by zero.
    fn noise(seed: u64, len: usize, keep: u64) -> Vec<u8> {
        let mut state = seed;
        let mut next = || {
            state = mixed(state.wrapping_add(1));
            state >> 32
        };
        (0..len)
            .map(|_| match next() {
                value if value & 0xFF < keep => value.to_le_bytes()[1],
                _ => 0,
            })
            .collect()
    }

    #[test]
    fn copies_of_a_matrix_are_found_and_chance_is_not() {
        let matrix = noise(1, 3 << 20, 256);
        let stacked = [&matrix[..], &matrix].concat();
        assert!(are_far_apart(&stacked, Effort::Balanced));
        assert!(!are_far_apart(&stacked, Effort::Fast));
        assert!(!are_far_apart(&noise(2, 6 << 20, 256), Effort::Balanced));
        assert!(!are_far_apart(&noise(3, 6 << 20, 20), Effort::Balanced));
        assert!(!are_far_apart(&[7; 6 << 20], Effort::Balanced));
        let near = noise(4, 1 << 18, 256).repeat(8);
        assert!(!are_far_apart(&near, Effort::Balanced));
    }

    #[test]
    fn repeated_words_are_found_and_chance_is_not() {
        let bytes = noise(5, 4096, 256);
        assert!(!are_in::<8, 1>(&bytes) && !are_in::<4, 2>(&bytes));
        let few: Vec<u8> = bytes.iter().map(|byte| byte % 6).collect();
        assert!(!are_in::<8, 1>(&few));
        let twice = [&bytes[..1000], &bytes[..1000]].concat();
        assert!(are_in::<8, 1>(&twice) && are_in::<4, 2>(&twice));
    }
}
