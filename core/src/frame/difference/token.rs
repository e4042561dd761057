//! Splits values into a symbol and raw bits, and combines them again
//! (docs/formats/zxd1.md 5). A small value is its own symbol. The symbol of a
//! larger value gives its two leading bits and the number of raw bits that
//! follow them.

use alloc::boxed::Box;

use super::block::SHIFT_MASK;
use crate::bytes::index;
use crate::frame::difference::float_format::Word;
use crate::frame::rans_blocks::check_raw_end;
use crate::{Result, Rule};

/// Values below this are their own symbols.
pub(super) const DIRECT: u32 = 32;
const DIRECT_BITS: u32 = DIRECT.ilog2();
/// The number of symbols: 32 direct ones, and two for each of the 27 powers of
/// two from 2^5 to 2^31.
pub(super) const SYMBOLS: usize = 32 + 2 * 27;
/// The maximum shift: the number of low bits that are removed from a value
/// before it is split.
pub(super) const MAX_SHIFT: u8 = 24;

/// Returns the number of raw bits that belong to a symbol.
#[inline(always)]
pub(super) const fn extra_bits(symbol: u8) -> u32 {
    if symbol < 32 {
        0
    } else {
        (symbol as u32 >> 1) - 12
    }
}

/// Returns the value of a symbol whose raw bits are all zero.
#[inline(always)]
pub(super) const fn lead(symbol: u8) -> u64 {
    if symbol < 32 {
        symbol as u64
    } else {
        (2 | symbol as u64 & 1) << extra_bits(symbol)
    }
}

/// Returns the symbol of a value.
#[inline(always)]
pub(super) fn symbol(value: u32) -> u8 {
    let log = (value | DIRECT).ilog2();
    // The two leading bits have the value 2 or 3.
    let large = DIRECT + 2 * (log - DIRECT_BITS) + (value >> (log - 1)) - 2;
    let symbol = if value < DIRECT { value } else { large };
    symbol.to_le_bytes()[0]
}

/// Number of elements whose raw bits are read together.
const BATCH: usize = 8;

/// A reader of the raw bits of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct RawBits<'a> {
    pub bytes: &'a [u8],
    pub position_bits: usize,
}

/// A bound on the number of bytes that hold the raw bits of a batch, plus 8
/// bytes for a read that begins at the last of them.
const WINDOW_BYTES: usize = 72;

impl<'a> RawBits<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            position_bits: 0,
        }
    }

    /// Combines `symbols` with their raw bits into `values`. The low bits of
    /// each entry of `choices` are the shift; `joins` holds the value without
    /// raw bits for each symbol and shift.
    #[inline(always)]
    pub fn read<W: Word>(
        &mut self,
        symbols: &[u8],
        choices: &[u16],
        joins: &Joins,
        values: &mut [W],
    ) {
        let (symbols, symbols_rest) = symbols.as_chunks::<BATCH>();
        let (choices, choices_rest) = choices.as_chunks::<BATCH>();
        let (values, values_rest) = values.as_chunks_mut::<BATCH>();
        for ((symbols, choices), values) in symbols.iter().zip(choices).zip(values) {
            self.read_batch(symbols, choices, joins, values);
        }
        if !symbols_rest.is_empty() {
            // The padding has symbols of 0 with a shift of 0, which have no raw
            // bits.
            let (mut symbols, mut choices, mut values) =
                ([0; BATCH], [0; BATCH], [W::default(); BATCH]);
            symbols[..symbols_rest.len()].copy_from_slice(symbols_rest);
            choices[..choices_rest.len()].copy_from_slice(choices_rest);
            self.read_batch(&symbols, &choices, joins, &mut values);
            values_rest.copy_from_slice(&values[..values_rest.len()]);
        }
    }

    #[inline(always)]
    fn read_batch<W: Word>(
        &mut self,
        symbols: &[u8; BATCH],
        choices: &[u16; BATCH],
        joins: &Joins,
        values: &mut [W; BATCH],
    ) {
        let any_shift = choices.iter().fold(0, |any, choice| any | choice) & SHIFT_MASK;
        let any_extra = u64::from_le_bytes(*symbols) & LARGE_SYMBOLS;
        if any_extra == 0 && any_shift == 0 {
            for (value, &symbol) in values.iter_mut().zip(symbols) {
                *value = W::truncate(symbol.into());
            }
            return;
        }
        let left = self.bytes.get(self.position_bits / 8..).unwrap_or(&[]);
        let padded;
        let window = match left.first_chunk::<WINDOW_BYTES>() {
            Some(window) => window,
            None => {
                padded = with_zeros(left);
                &padded
            }
        };
        let mut entries = [0; BATCH];
        let mut all_bits = 0;
        for (entry, (&symbol, &choice)) in entries.iter_mut().zip(symbols.iter().zip(choices)) {
            *entry = joins.entry(symbol, choice);
            all_bits += *entry >> LEN_AT;
        }
        let mut bit = self.position_bits % 8;
        if all_bits + 7 <= u64::BITS.into() {
            let word = window.first_chunk();
            let mut word = word.map_or(0, |word| u64::from_le_bytes(*word)) >> bit;
            for (value, entry) in values.iter_mut().zip(entries) {
                let len = entry >> LEN_AT;
                let raw = word & !(u64::MAX << len);
                *value = W::truncate(entry.wrapping_add(raw));
                word >>= len;
            }
            self.position_bits += index(all_bits);
            return;
        }
        for (value, entry) in values.iter_mut().zip(entries) {
            // At most 7 + 7 * 54 bits precede the last element.
            let start = bit / 8 % (WINDOW_BYTES - 8);
            let word = window[start..].first_chunk();
            let word = word.map_or(0, |word| u64::from_le_bytes(*word));
            let len = entry >> LEN_AT;
            let raw = word >> (bit % 8) & !(u64::MAX << len);
            *value = W::truncate(entry.wrapping_add(raw));
            bit += index(len);
        }
        self.position_bits += bit - self.position_bits % 8;
    }

    /// Checks that all bytes have been used.
    pub fn finish(&self) -> Result<()> {
        check_raw_end(
            self.bytes,
            self.position_bits as u64,
            Rule::DifferenceRawBits,
        )
    }
}

/// Returns the last bytes, followed by zeros. `finish` detects whether bits of
/// the padding were used.
#[cold]
fn with_zeros(left: &[u8]) -> [u8; WINDOW_BYTES] {
    let mut padded = [0; WINDOW_BYTES];
    padded[..left.len()].copy_from_slice(left);
    padded
}

/// A mask for the symbols of a batch. Only symbols with raw bits have any of
/// these bits set.
#[allow(clippy::cast_possible_truncation)] // 32
const LARGE_SYMBOLS: u64 = u64::from_le_bytes([!(DIRECT as u8 - 1); 8]);

/// The lookup table for combining symbols with raw bits.
#[derive(Debug, Clone)]
pub struct Joins {
    /// An entry for each shift and symbol. Its low 32 bits are the value
    /// without its raw bits, and the bits from [`LEN_AT`] on are the number of
    /// raw bits.
    entries: Box<[u64; (SHIFT_MASK as usize + 1) * TOKENS]>,
}

/// The number of symbols, rounded up to a power of two.
const TOKENS: usize = 128;
const LEN_AT: u32 = 58;

impl Joins {
    /// Creates the entries for the given shifts.
    pub fn new(shifts: impl Iterator<Item = u8>) -> Self {
        let mut entries = Box::new([0; (SHIFT_MASK as usize + 1) * TOKENS]);
        for shift in shifts {
            let symbols = (0u8..).take(SYMBOLS);
            let own = &mut entries[usize::from(shift) * TOKENS..];
            for (symbol, entry) in symbols.zip(own) {
                let len = u64::from(extra_bits(symbol)) + u64::from(shift);
                let lead = (lead(symbol) << shift) & u64::from(u32::MAX);
                *entry = lead | len << LEN_AT;
            }
        }
        Self { entries }
    }

    #[inline(always)]
    fn entry(&self, symbol: u8, choice: u16) -> u64 {
        let shift = usize::from(choice & SHIFT_MASK);
        self.entries[shift * TOKENS + usize::from(symbol) % TOKENS]
    }
}

const _: () = assert!(MAX_SHIFT as u16 <= SHIFT_MASK);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_cover_all_values_in_order() {
        for value in [
            0,
            1,
            31,
            32,
            47,
            48,
            63,
            64,
            95,
            96,
            1 << 16,
            u32::MAX / 2,
            u32::MAX,
        ] {
            let symbol = symbol(value);
            assert!(usize::from(symbol) < SYMBOLS);
            let extra = u64::from(value) - lead(symbol);
            assert!(extra < 1 << extra_bits(symbol), "{value}");
        }
        let mut next = 0;
        for symbol in 0..SYMBOLS {
            let symbol = u8::try_from(symbol).unwrap();
            assert_eq!(lead(symbol), next, "{symbol}");
            next += 1 << extra_bits(symbol);
        }
        assert_eq!(next, 1 << 32);
        assert_eq!((symbol(47), symbol(48), symbol(u32::MAX)), (32, 33, 85));
    }

    #[test]
    fn a_symbol_and_its_shift_fit_a_window() {
        let most = extra_bits(u8::try_from(SYMBOLS - 1).unwrap());
        assert_eq!(most + u32::from(MAX_SHIFT), 54);
    }
}
