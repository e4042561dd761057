//! Builds a palette of at most 256 values in one pass: each element is looked
//! up in a directly indexed table and numbered immediately.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::word;

/// Maximum number of values that a one-byte index can distinguish.
pub const MAX_VALUES: usize = 256;

/// Most tensors with too many distinct elements show it within this many; the
/// whole index is allocated only afterwards.
const CHUNK_ITEMS: usize = 4096;

/// The result of building a small palette.
pub enum SmallPalette {
    /// The codebook and the index.
    Split(Vec<u64>, Vec<u8>),
    /// There are more values than allowed.
    TooMany,
    /// None of the tried hashes maps the values to different slots, which means
    /// that they were chosen to collide.
    Collide,
}

/// Splits like [`super::split`], for a `most` of up to [`MAX_VALUES`].
pub fn split<const W: usize>(items: &[[u8; W]], most: usize) -> SmallPalette {
    let Some(first) = items.first() else {
        return SmallPalette::Split(Vec::new(), Vec::new());
    };
    if most == 0 {
        return SmallPalette::TooMany;
    }
    let mut numbers = Numbers::<W>::new(word(first));
    let mut index: Vec<u8> = Vec::new();
    for chunk in items.chunks(CHUNK_ITEMS) {
        let start = index.len();
        if start == CHUNK_ITEMS {
            index.reserve_exact(items.len() - start);
        }
        index.resize(start + chunk.len(), 0);
        for (number, item) in index[start..].iter_mut().zip(chunk) {
            let value = word(item);
            *number = match numbers.find(value) {
                Some(number) => number,
                None if numbers.count >= most => return SmallPalette::TooMany,
                None => match numbers.add(value) {
                    Some(number) => number,
                    None => return SmallPalette::Collide,
                },
            };
        }
    }
    // Up to here, values are numbered in order of appearance.
    let mut codebook = numbers.values[..numbers.count].to_vec();
    codebook.sort_unstable();
    let mut positions = [0; MAX_VALUES];
    for (&value, position) in codebook.iter().zip(0..=u8::MAX) {
        if let Some(number) = numbers.find(value) {
            positions[usize::from(number)] = position;
        }
    }
    for position in &mut index {
        *position = positions[usize::from(*position)];
    }
    SmallPalette::Split(codebook, index)
}

const SLOTS: usize = 1 << 16;
/// The maximum number of hashes that are tried. Each has a better than even
/// chance to map 256 values to different slots, unless they were chosen to
/// collide.
const MULTIPLIERS: usize = 64;

/// Values of `W` bytes and their numbers, found in one step by a hash that maps
/// each value to its own slot.
struct Numbers<const W: usize> {
    values: [u64; MAX_VALUES],
    count: usize,
    /// The number of the value in each slot; 0 in empty slots.
    slots: Box<[u8; SLOTS]>,
    multiplier: u64,
}

impl<const W: usize> Numbers<W> {
    fn new(first: u64) -> Self {
        Self {
            values: [first; MAX_VALUES],
            count: 1,
            slots: empty(),
            // An odd number with evenly distributed ones and zeros, derived
            // from the golden ratio.
            multiplier: 0x9E37_79B9_7F4A_7C15,
        }
    }

    fn slot(&self, value: u64) -> usize {
        match W {
            // Values of up to 16 bits are slot indices themselves.
            1 | 2 => crate::bytes::index(value) % SLOTS,
            _ => crate::bytes::index(value.wrapping_mul(self.multiplier) >> 48),
        }
    }

    #[inline]
    fn find(&self, value: u64) -> Option<u8> {
        let number = self.slots[self.slot(value)];
        (self.values[usize::from(number)] == value).then_some(number)
    }

    /// Adds a new value and returns its number, or `None` if no hash maps all
    /// values to different slots.
    #[cold]
    fn add(&mut self, value: u64) -> Option<u8> {
        let number = u8::try_from(self.count).ok()?;
        self.values[self.count] = value;
        self.count += 1;
        if self.claim_slot(number) {
            return Some(number);
        }
        for _ in 0..MULTIPLIERS {
            // Products are well mixed in their upper half only.
            self.multiplier = self
                .multiplier
                .rotate_left(25)
                .wrapping_mul(0x5851_F42D_4C95_7F2D)
                | 1;
            self.slots = empty();
            if (0..=number).all(|number| self.claim_slot(number)) {
                return Some(number);
            }
        }
        None
    }

    /// Assigns a value to its slot. Returns `false` if another value occupies
    /// it.
    fn claim_slot(&mut self, number: u8) -> bool {
        let slot = self.slot(self.values[usize::from(number)]);
        let holder = self.slots[slot];
        // An empty slot holds 0, the number of the first value.
        if holder != number && self.slot(self.values[usize::from(holder)]) == slot {
            return false;
        }
        self.slots[slot] = number;
        true
    }
}

fn empty() -> Box<[u8; SLOTS]> {
    // The length is right by construction. `vec!` allocates directly on the
    // heap.
    let slots: Result<Box<[u8; SLOTS]>, _> = vec![0; SLOTS].into_boxed_slice().try_into();
    slots.unwrap_or_else(|_| Box::new([0; SLOTS]))
}
