//! Encoder of a stream, which proceeds from the last symbol to the first
//! (docs/formats/zxd1.md 8).

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::hint::select_unpredictable;

use super::{Frequencies, LOWER, MAX_STATES, MAX_TABLES, SLOT_BITS, SLOTS};

/// The symbols of up to 16 tables, prepared for encoding.
#[derive(Debug, Clone)]
pub struct EncodeTables(Box<[Code; MAX_TABLES << SYMBOL_BITS]>);

const SYMBOL_BITS: u32 = 8;

/// A symbol, prepared so that the division by its frequency becomes a
/// multiplication.
#[derive(Debug, Clone, Copy, Default)]
struct Code {
    /// `2^44` divided by the frequency `f`, rounded up. Dividends are below `f * 2^20`,
    /// so the product is below `2^64`. It exceeds the exact quotient times `2^44` by less
    /// than `f * 2^20 <= 2^44 / f`, which is too little to change the integer quotient.
    factor: u64,
    /// The largest state that does not have to emit a word first.
    last: u32,
    start: u16,
    /// Number of slots of all other symbols. Encoding adds this number times
    /// the quotient to the state.
    others: u16,
}

const FACTOR_BITS: u32 = 44;

impl EncodeTables {
    /// Prepares the tables for encoding.
    ///
    /// # Panics
    /// If there are more than 16 tables.
    #[must_use]
    pub fn new(tables: &[Frequencies]) -> Self {
        assert!(tables.len() <= MAX_TABLES, "at most 16 tables");
        let mut all = vec![Code::default(); MAX_TABLES << SYMBOL_BITS].into_boxed_slice();
        for (codes, table) in all.chunks_exact_mut(1 << SYMBOL_BITS).zip(tables) {
            let mut start = 0;
            for (symbol, frequency) in table.iter() {
                if frequency > 0 {
                    codes[usize::from(symbol)] = Code::new(frequency, start);
                    start += frequency;
                }
            }
        }
        Self(all.try_into().unwrap_or_else(|_| unreachable!()))
    }

    /// Returns the code of a symbol in the table that the top four bits of
    /// `choice` select.
    #[inline(always)]
    fn code(&self, choice: u16, symbol: u8) -> &Code {
        let table = usize::from(choice >> SLOT_BITS);
        &self.0[table << SYMBOL_BITS | usize::from(symbol)]
    }
}

impl Code {
    fn new(frequency: u16, start: u16) -> Self {
        let wide = u64::from(frequency);
        let last = (wide << (32 - SLOT_BITS)) - 1;
        let others = SLOTS - u32::from(frequency);
        Self {
            factor: (1u64 << FACTOR_BITS).div_ceil(wide),
            last: u32::try_from(last).unwrap_or(u32::MAX),
            start,
            others: u16::try_from(others).unwrap_or(u16::MAX),
        }
    }
}

/// Encodes `symbols` with `states` states. The top four bits of the entry in
/// `choices` select the table of each symbol. Every symbol must have a
/// frequency in its table.
///
/// # Panics
/// If `states` is not a power of two up to 32.
#[must_use]
pub fn encode(tables: &EncodeTables, symbols: &[u8], choices: &[u16], states: usize) -> Vec<u8> {
    let mut stream = Reversed::new(states, symbols.len());
    for (i, (&symbol, &choice)) in symbols.iter().zip(choices).enumerate().rev() {
        stream.push(i, tables.code(choice, symbol));
    }
    stream.finish()
}

/// Encodes `symbols` with `states` states and one table.
///
/// # Panics
/// If `states` is not a power of two up to 32.
#[must_use]
pub(crate) fn encode_one_table(table: Frequencies, symbols: &[u8], states: usize) -> Vec<u8> {
    let tables = EncodeTables::new(&[table]);
    let mut stream = Reversed::new(states, symbols.len());
    for (i, &symbol) in symbols.iter().enumerate().rev() {
        stream.push(i, tables.code(0, symbol));
    }
    stream.finish()
}

/// A stream that is written from its end to its start.
struct Reversed {
    states: [u32; MAX_STATES],
    /// Number of states, a power of two.
    count: usize,
    words: Vec<u16>,
    len: usize,
}

impl Reversed {
    fn new(count: usize, symbols: usize) -> Self {
        assert!(count.is_power_of_two() && count <= MAX_STATES);
        Self {
            states: [LOWER; MAX_STATES],
            count,
            // At most one word for each symbol, and one that is overwritten.
            words: vec![0; symbols + 1],
            len: 0,
        }
    }

    #[inline(always)]
    fn push(&mut self, number: usize, code: &Code) {
        let state = &mut self.states[number & (self.count - 1) & (MAX_STATES - 1)];
        let emits = *state > code.last;
        #[allow(clippy::cast_possible_truncation)] // the low half
        if let Some(word) = self.words.get_mut(self.len) {
            *word = *state as u16;
        }
        self.len += usize::from(emits);
        let rest = select_unpredictable(emits, *state >> 16, *state);
        #[allow(clippy::cast_possible_truncation)] // the quotient is at most the dividend
        let quotient = (u64::from(rest).wrapping_mul(code.factor) >> FACTOR_BITS) as u32;
        *state = rest + quotient * u32::from(code.others) + u32::from(code.start);
    }

    fn finish(self) -> Vec<u8> {
        let words = &self.words[..self.len];
        let mut out = Vec::with_capacity(4 * self.count + 2 * words.len());
        for state in &self.states[..self.count] {
            out.extend_from_slice(&state.to_le_bytes());
        }
        for word in words.iter().rev() {
            out.extend_from_slice(&word.to_le_bytes());
        }
        out
    }
}
