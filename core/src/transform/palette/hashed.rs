//! Builds a palette of any number of values with a hash table.

use alloc::vec;
use alloc::vec::Vec;

use super::{index_bytes, word};

/// Splits like [`super::split`].
pub fn split<const W: usize>(items: &[[u8; W]], most: usize) -> Option<(Vec<u64>, Vec<u8>)> {
    let mut seen = Positions::default();
    let mut codebook = Vec::new();
    for item in items {
        if seen.insert(word(item), codebook.len()) {
            codebook.push(word(item));
            if codebook.len() > most {
                return None;
            }
        }
    }
    codebook.sort_unstable();
    let mut positions = Positions::default();
    for (position, &value) in codebook.iter().enumerate() {
        positions.insert(value, position);
    }
    let width = index_bytes(codebook.len());
    let positions = items.iter().filter_map(|item| positions.find(word(item)));
    let index = positions.flat_map(|position| position.to_le_bytes().into_iter().take(width));
    let index = index.collect();
    Some((codebook, index))
}

/// A hash table from values to indices, with open addressing. The hash function
/// is fixed, so for values chosen to collide, each operation takes time
/// proportional to the length of the codebook, which the caller bounds.
#[derive(Default)]
struct Positions {
    /// Value and index. The number of slots is a power of two, and at most half
    /// of them are in use.
    slots: Vec<Option<(u64, u32)>>,
    used: usize,
}

impl Positions {
    fn slot(&self, value: u64) -> usize {
        let bits = self.slots.len().trailing_zeros();
        // Fibonacci hashing: the high bits of a product are well mixed.
        let hash = value.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let hash = (hash ^ hash >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - bits);
        let mask = self.slots.len() - 1;
        let mut at = usize::try_from(hash).unwrap_or(0) & mask;
        while self.slots[at].is_some_and(|(other, _)| other != value) {
            at = (at + 1) & mask;
        }
        at
    }

    fn find(&self, value: u64) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        self.slots[self.slot(value)].map(|(_, position)| position)
    }

    /// Inserts a value. Returns whether it was new.
    fn insert(&mut self, value: u64, position: usize) -> bool {
        if self.used * 2 >= self.slots.len() {
            let larger = vec![None; (self.slots.len() * 4).max(1024)];
            for entry in core::mem::replace(&mut self.slots, larger)
                .into_iter()
                .flatten()
            {
                let at = self.slot(entry.0);
                self.slots[at] = Some(entry);
            }
        }
        let at = self.slot(value);
        if self.slots[at].is_some() {
            return false;
        }
        self.slots[at] = Some((value, u32::try_from(position).unwrap_or(u32::MAX)));
        self.used += 1;
        true
    }
}
