//! Whether a tensor repeats itself: over distances that an ordinary search does
//! not see, as stacked copies of one matrix do, or near by.

use alloc::collections::BTreeMap;
use alloc::vec;

use super::Effort;

/// Distances below this are within a block and its window.
const FAR_BYTES: usize = 2 << 20;
/// Longer tensors have planes that no window spans.
const MOST_BYTES: usize = 1 << 28;
/// One word of so many, picked by its value, is an anchor.
const ANCHORS: u32 = 10;
/// Bytes after an anchor that have to be the same.
const MATCH_BYTES: usize = 64;
/// And different values among them: mostly zeros repeat by chance.
const LEAST_DISTINCT: u32 = 12;
/// One anchor of so many must have been seen before for a long search to be
/// tried: where one of fifty repeats an earlier one, of which a quarter has
/// been looked at.
const LEAST_SHARE: usize = 200;
/// Pages are picked by so many bits of their mixed numbers.
const PAGES: u32 = 2;
const PAGE_BYTES: usize = 4096;

/// Looks at every eighth byte of a quarter of the tensor: elements and rows
/// mostly begin there. Which pages these are looks like chance, so that at any
/// distance some are found together.
pub fn are_far_apart(tensor: &[u8], effort: Effort) -> bool {
    if effort == Effort::Fast || tensor.len() <= FAR_BYTES || tensor.len() > MOST_BYTES {
        return false;
    }
    let (pages, _) = tensor.as_chunks::<PAGE_BYTES>();
    let mut last_seen: BTreeMap<u64, usize> = BTreeMap::new();
    let (mut anchors, mut repeated) = (0, 0);
    for (number, page) in pages.iter().enumerate() {
        if mixed(number as u64 + 1) >> (64 - PAGES) != 0 {
            continue;
        }
        let (words, _) = page.as_chunks::<8>();
        for (index, word) in words.iter().enumerate() {
            let word = u64::from_le_bytes(*word);
            if word.wrapping_mul(SPREAD) >> (64 - ANCHORS) != 0 {
                continue;
            }
            // A run of one value would be nothing but anchors.
            if index > 0 && u64::from_le_bytes(words[index - 1]) == word {
                continue;
            }
            let at = number * PAGE_BYTES + index * 8;
            let Some(content) = tensor.get(at..at + MATCH_BYTES) else {
                break;
            };
            if distinct(content) < LEAST_DISTINCT {
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
    repeated > 0 && repeated * LEAST_SHARE >= anchors
}

/// Whether words of the sampled windows occur again in them, more often than
/// one in [`NEAR_SHARE`]: what a search would find in a tensor of elements that
/// are not few.
pub fn are_near(windows: &[&[u8]]) -> bool {
    let mut seen = vec![0u64; 1 << NEAR_BITS];
    let (mut words, mut repeated) = (0, 0);
    for window in windows {
        // Noted are whole words, compared is every other place: all even
        // distances are seen.
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

const NEAR_BITS: u32 = 13;
const NEAR_SHARE: usize = 128;

/// Whether words at every `STEP`-th place have been seen before, more often
/// than one in [`IN_SHARE`] bytes. Noted are whole words; 15 bytes at the
/// end do not count.
pub fn are_in<const WORD_BYTES: usize, const STEP: usize>(bytes: &[u8]) -> bool {
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
            #[allow(clippy::cast_possible_truncation)] // the bytes of the word
            let word = (places >> (8 * place)) as u64 & mask;
            // The high bits of a product are well mixed.
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

const IN_SHARE: usize = 256;

/// Bits of a product with it depend on all lower bits of a word.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// Spreads the bits of a word, the upper ones best.
fn mixed(word: u64) -> u64 {
    let product = word.wrapping_mul(SPREAD);
    (product ^ product >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

/// How many different bytes occur.
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

    /// Noise from a seed, `keep` of 256 bytes kept and the others zero.
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
    fn copies_of_a_matrix_are_seen_and_chance_is_not() {
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
    fn repeated_words_are_seen_and_chance_is_not() {
        let bytes = noise(5, 4096, 256);
        assert!(!are_in::<8, 1>(&bytes) && !are_in::<4, 2>(&bytes));
        let few: Vec<u8> = bytes.iter().map(|byte| byte % 6).collect();
        assert!(!are_in::<8, 1>(&few));
        let twice = [&bytes[..1000], &bytes[..1000]].concat();
        assert!(are_in::<8, 1>(&twice) && are_in::<4, 2>(&twice));
    }
}
