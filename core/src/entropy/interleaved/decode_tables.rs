//! Lookup tables of the decoder, which map slots to symbols
//! (docs/formats/zxd1.md 7).

use alloc::boxed::Box;
use alloc::vec;

use super::{Frequencies, MAX_TABLES, SLOT_BITS, SLOTS};

/// Number of entries of all tables. The index of a table and a slot together
/// have 16 bits.
const ENTRIES: usize = MAX_TABLES << SLOT_BITS;

/// Maps the slots of up to 16 tables to symbols.
#[derive(Debug, Clone)]
pub struct DecodeTables {
    /// For each slot of each table: the symbol (8 bits), its frequency minus
    /// one (12 bits), and the index of the slot among the slots of this symbol
    /// (12 bits).
    pub(super) entries: Box<[u32; ENTRIES]>,
}

impl DecodeTables {
    /// Prepares the lookup tables.
    ///
    /// # Panics
    /// If there are more than 16 tables.
    #[must_use]
    pub fn new(tables: &[Frequencies]) -> Self {
        let mut entries = vec![0; ENTRIES].into_boxed_slice();
        let slots = entries.chunks_exact_mut(SLOTS as usize);
        assert!(tables.len() <= MAX_TABLES, "at most 16 tables");
        for (slots, table) in slots.zip(tables) {
            let mut rest = slots;
            for (symbol, frequency) in table.iter() {
                let (own, after) = rest.split_at_mut(frequency.into());
                let less_one = u32::from(frequency).saturating_sub(1) << 8;
                for (offset, entry) in (0u32..).zip(own) {
                    *entry = u32::from(symbol) | less_one | offset << 20;
                }
                rest = after;
            }
        }
        let entries = entries.try_into().unwrap_or_else(|_| unreachable!());
        Self { entries }
    }

    #[inline(always)]
    pub(super) fn entry(&self, choice: u16, state: u32) -> u32 {
        #[allow(clippy::cast_possible_truncation)] // the low half
        let slot = state as u16 & ((1 << SLOT_BITS) - 1);
        self.entries[usize::from(choice & !((1 << SLOT_BITS) - 1) | slot)]
    }
}
