//! The distinct elements of a group and their symbols.

use alloc::vec;
use alloc::vec::Vec;

use super::sheet::Key;

/// The most distinct elements that a grid with one-byte symbols can represent:
/// 256 values and −0.
const MAX_KEYS: usize = 257;
const SLOT_BITS: u32 = 10;

#[derive(Clone, Copy, Default)]
struct Slot {
    key: Key,
    /// The group that filled the slot. The slot is free for any other group.
    group: u32,
    symbol: u16,
}

/// A hash table of the distinct elements of one group, reused for every group.
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

    /// Removes all elements, to start another group.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.group += 1;
    }

    /// Adds an element. Returns `false` if there are more than [`MAX_KEYS`]
    /// distinct ones.
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

    /// Returns the distinct elements in ascending order.
    pub fn sorted(&mut self) -> &[Key] {
        self.keys.sort_unstable();
        &self.keys
    }

    /// Sets the symbol of an element that has been inserted.
    pub fn set(&mut self, key: Key, symbol: u16) {
        let slot = self.slot(key);
        self.slots[slot].symbol = symbol;
    }

    /// Returns the symbol of an element that has been inserted.
    #[inline]
    pub fn symbol(&self, key: Key) -> u16 {
        self.slots[self.slot(key)].symbol
    }

    /// Returns the slot that holds `key`, or the free slot to insert it in. At
    /// least three quarters of the slots are free.
    #[inline]
    fn slot(&self, key: Key) -> usize {
        let mut slot = (key.wrapping_mul(0x9e37_79b1) >> (32 - SLOT_BITS)) as usize;
        while self.slots[slot].group == self.group && self.slots[slot].key != key {
            slot = (slot + 1) & ((1 << SLOT_BITS) - 1);
        }
        slot
    }
}
