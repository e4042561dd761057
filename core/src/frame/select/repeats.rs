//! Whether a tensor repeats itself over distances that an ordinary search
//! does not see, as stacked copies of one matrix do.

use alloc::collections::BTreeMap;

use super::Effort;

/// Distances below this are within a block and its window.
const FAR_BYTES: usize = 2 << 20;
/// Longer tensors have planes that no window spans.
const MOST_BYTES: usize = 1 << 28;
/// One word of so many, picked by its value, is an anchor.
const ANCHORS: u32 = 10;
/// Bytes after an anchor that have to be the same.
const MATCH_BYTES: usize = 64;
/// Share of the anchors, in parts of a hundred, that must have been seen
/// before for a long search to be tried.
const LEAST_PERCENT: usize = 2;

/// Looks at every eighth byte: elements and rows mostly begin there.
pub fn are_far_apart(tensor: &[u8], effort: Effort) -> bool {
    if effort == Effort::Fast || tensor.len() <= FAR_BYTES || tensor.len() > MOST_BYTES {
        return false;
    }
    let (words, _) = tensor.as_chunks::<8>();
    let mut last_seen: BTreeMap<u64, usize> = BTreeMap::new();
    let (mut anchors, mut repeated) = (0, 0);
    let mut before = 0;
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // A run of one value would be nothing but anchors.
        let is_run = core::mem::replace(&mut before, word) == word;
        if mixed(word) >> (64 - ANCHORS) != 0 || is_run {
            continue;
        }
        let at = index * 8;
        let Some(content) = tensor.get(at..at + MATCH_BYTES) else {
            break;
        };
        anchors += 1;
        let (parts, _) = content.as_chunks::<8>();
        let hash = parts.iter().fold(0, |hash: u64, part| {
            mixed(hash.rotate_left(5) ^ u64::from_le_bytes(*part))
        });
        if let Some(earlier) = last_seen.insert(hash, at) {
            repeated += usize::from(at - earlier >= FAR_BYTES);
        }
    }
    repeated > 0 && repeated * 100 >= anchors * LEAST_PERCENT
}

/// Spreads the bits of a word, the upper ones best.
fn mixed(word: u64) -> u64 {
    let product = word.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (product ^ product >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}
