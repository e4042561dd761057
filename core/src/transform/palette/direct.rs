//! Builds a palette of at most 256 values in one pass: every element is looked
//! up in a directly indexed table and numbered at once.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use super::word;

/// The most values that an index of one byte can distinguish.
pub const MAX_VALUES: usize = 256;

/// Most tensors turn out to have too many distinct elements within this many;
/// the whole index is allocated only after them.
const CHUNK_ITEMS: usize = 4096;

/// The result of building a small palette.
pub enum SmallPalette {
    /// The codebook and the index.
    Split(Vec<u64>, Vec<u8>),
    /// There are more values than allowed.
    TooMany,
    /// No hash that was tried keeps the values apart; they were chosen to
    /// collide.
    Collide,
}

/// Splits like [`super::split`], for `most` up to [`MAX_VALUES`].
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
    // So far values are numbered in order of appearance.
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
/// The most hashes that are tried. Each keeps 256 values apart with better than
/// even chances, unless they were chosen to collide.
const MULTIPLIERS: usize = 64;

/// Values of `W` bytes and their numbers, found in one step by a hash that
/// gives each value a slot of its own.
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
            // Odd, with ones and zeros all over: the golden ratio.
            multiplier: 0x9E37_79B9_7F4A_7C15,
        }
    }

    fn slot(&self, value: u64) -> usize {
        match W {
            // Values of up to 16 bits are slots themselves.
            1 | 2 => crate::bytes::index(value) % SLOTS,
            _ => crate::bytes::index(value.wrapping_mul(self.multiplier) >> 48),
        }
    }

    #[inline]
    fn find(&self, value: u64) -> Option<u8> {
        let number = self.slots[self.slot(value)];
        (self.values[usize::from(number)] == value).then_some(number)
    }

    /// Adds a new value and returns its number; `None` if no hash keeps it
    /// apart.
    #[cold]
    fn add(&mut self, value: u64) -> Option<u8> {
        let number = u8::try_from(self.count).ok()?;
        self.values[self.count] = value;
        self.count += 1;
        if self.claim_slot(number) {
            return Some(number);
        }
        for _ in 0..MULTIPLIERS {
            // The upper half of a product alone is well mixed.
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

    /// Gives a value its slot, unless another value has it.
    fn claim_slot(&mut self, number: u8) -> bool {
        let slot = self.slot(self.values[usize::from(number)]);
        let holder = self.slots[slot];
        // An empty slot holds number 0, that of the first value.
        if holder != number && self.slot(self.values[usize::from(holder)]) == slot {
            return false;
        }
        self.slots[slot] = number;
        true
    }
}

fn empty() -> Box<[u8; SLOTS]> {
    // The length is right by construction; allocated on the heap.
    let slots: Result<Box<[u8; SLOTS]>, _> = vec![0; SLOTS].into_boxed_slice().try_into();
    slots.unwrap_or_else(|_| Box::new([0; SLOTS]))
}
