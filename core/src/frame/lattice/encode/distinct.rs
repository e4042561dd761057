//! The distinct elements of a group, and the symbol of each.

use alloc::vec;
use alloc::vec::Vec;

use super::sheet::Key;

/// More distinct elements than these have no grid of one byte: 256 values and
/// −0.
const MAX_KEYS: usize = 257;
const SLOT_BITS: u32 = 10;

#[derive(Clone, Copy, Default)]
struct Slot {
    key: Key,
    /// The group that the slot is filled for.
    group: u32,
    symbol: u16,
}

/// The distinct elements of one group after another.
pub struct Distinct {
    slots: Vec<Slot>,
    group: u32,
    keys: Vec<Key>,
}

impl Distinct {
    pub fn new() -> Self {
        Self {
            slots: vec![Slot::default(); 1 << SLOT_BITS],
            group: 0,
            keys: Vec::with_capacity(MAX_KEYS),
        }
    }

    /// Forgets all elements.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.group += 1;
    }

    /// Adds an element, and returns whether there are not too many.
    #[inline]
    pub fn insert(&mut self, key: Key) -> bool {
        let slot = self.slot(key);
        let slot = &mut self.slots[slot];
        if slot.group != self.group {
            *slot = Slot {
                key,
                group: self.group,
                symbol: 0,
            };
            self.keys.push(key);
        }
        self.keys.len() <= MAX_KEYS
    }

    /// Returns the elements in ascending order.
    pub fn sorted(&mut self) -> &[Key] {
        self.keys.sort_unstable();
        &self.keys
    }

    /// Sets the symbol of an element that is there.
    pub fn set(&mut self, key: Key, symbol: u16) {
        let slot = self.slot(key);
        self.slots[slot].symbol = symbol;
    }

    /// Returns the symbol of an element that is there.
    #[inline]
    pub fn symbol(&self, key: Key) -> u16 {
        self.slots[self.slot(key)].symbol
    }

    /// Returns the slot of a key, or the one to put it in. Most slots are free.
    #[inline]
    fn slot(&self, key: Key) -> usize {
        let mut slot = (key.wrapping_mul(0x9e37_79b1) >> (32 - SLOT_BITS)) as usize;
        while self.slots[slot].group == self.group && self.slots[slot].key != key {
            slot = (slot + 1) & ((1 << SLOT_BITS) - 1);
        }
        slot
    }
}
