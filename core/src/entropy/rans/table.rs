//! Frequencies of the 256 byte values (5.1), their rounding by an encoder
//! (5.5), and the lookup tables of a decoder.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use crate::bytes::Cursor;
use crate::{Error, Result, Rule};

/// Length in bytes of a serialised table in methods 3 and 4.
pub(super) const TABLE_BYTES: usize = 512;

/// A frequency for every byte value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Frequencies(pub Box<[u16; 256]>);

impl Frequencies {
    /// Reads 256 numbers of 16 bits, which must sum to `1 << bits`.
    pub fn read(cursor: &mut Cursor, bits: u32) -> Result<Self> {
        let at = cursor.position() as u64;
        let mut bytes = Cursor::new(cursor.take(TABLE_BYTES as u64, "rANS table")?);
        let mut frequencies = Box::new([0; 256]);
        for frequency in frequencies.iter_mut() {
            *frequency = bytes.u16("rANS frequency")?;
        }
        let table = Self(frequencies);
        let sum: u32 = table.0.iter().map(|&f| u32::from(f)).sum();
        if sum == 1 << bits {
            Ok(table)
        } else {
            Err(Error::malformed(
                Rule::RansTable,
                format!("rANS frequencies sum to {sum} instead of {}", 1 << bits),
            )
            .at(at))
        }
    }

    /// Rounds counts to frequencies that sum to `1 << bits`. At least one count
    /// must be positive. Every value that occurs keeps a frequency.
    pub fn round(counts: &[u64; 256], bits: u32) -> Self {
        let total: u64 = counts.iter().sum();
        let target = 1u32 << bits;
        let mut table = [0u16; 256];
        for (frequency, &count) in table.iter_mut().zip(counts) {
            // This cannot overflow, because planes are shorter than 2^50 bytes.
            let scaled = count * u64::from(target) / total.max(1);
            let floor = u16::try_from(scaled).unwrap_or(u16::MAX);
            *frequency = floor.max(u16::from(count > 0));
        }
        let sum: u32 = table.iter().map(|&f| u32::from(f)).sum();
        if sum <= target {
            let missing = u16::try_from(target - sum).unwrap_or(u16::MAX);
            *largest(&mut table) += missing;
        }
        let mut surplus = sum.saturating_sub(target);
        while surplus > 0 {
            let frequency = largest(&mut table);
            let step = u32::from(*frequency - 1).min(surplus);
            *frequency -= u16::try_from(step).unwrap_or(u16::MAX);
            surplus -= step;
        }
        Self(Box::new(table))
    }

    /// Returns the largest frequency.
    pub fn most(&self) -> u32 {
        self.0.iter().copied().max().unwrap_or(0).into()
    }

    /// Appends the table in the format of methods 3 and 4.
    pub fn write(&self, out: &mut Vec<u8>) {
        for frequency in self.0.iter() {
            out.extend_from_slice(&frequency.to_le_bytes());
        }
    }

    /// Returns the frequency and the start of every byte value.
    pub fn codes(&self) -> [Code; 256] {
        let mut start = 0;
        self.0.map(|frequency| {
            let code = Code(u32::from(frequency) | start << 16);
            start += u32::from(frequency);
            code
        })
    }
}

/// Returns the largest frequency. If several are equal, it is the one with the
/// smallest byte value.
fn largest(table: &mut [u16; 256]) -> &mut u16 {
    let mut best = 0;
    for (i, &frequency) in table.iter().enumerate() {
        if frequency > table[best] {
            best = i;
        }
    }
    &mut table[best]
}

/// Frequency and start of one symbol, with 16 bits each because both can be
/// `2^14`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Code(u32);

impl Code {
    /// Returns the frequency in the lower half and the start in the upper half.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    pub fn bits(self) -> u32 {
        self.0
    }

    #[inline(always)]
    pub fn frequency(self) -> u32 {
        self.0 & 0xFFFF
    }

    #[inline(always)]
    pub fn start(self) -> u32 {
        self.0 >> 16
    }
}

/// Maps slots to symbols, and symbols to codes. The two tables take 17 KiB at
/// order 0, whereas a combined entry per slot would overflow the first-level
/// cache.
#[derive(Debug, Clone)]
pub(super) struct Lookup<const SLOTS: usize> {
    symbols: [u8; SLOTS],
    codes: [Code; 256],
}

impl<const SLOTS: usize> Lookup<SLOTS> {
    /// Creates the lookup for frequencies that sum to `SLOTS`, which is a power
    /// of two.
    pub fn new(frequencies: &Frequencies) -> Self {
        let mut symbols = [0; SLOTS];
        let mut rest = &mut symbols[..];
        for (symbol, &frequency) in (0..=u8::MAX).zip(frequencies.0.iter()) {
            let (slots, after) = rest.split_at_mut(frequency.into());
            slots.fill(symbol);
            rest = after;
        }
        Self {
            symbols,
            codes: frequencies.codes(),
        }
    }

    /// Returns the symbol of a slot, which must be below `SLOTS`.
    #[inline(always)]
    pub fn symbol(&self, slot: u32) -> u8 {
        self.symbols[slot as usize & (SLOTS - 1)]
    }

    #[inline(always)]
    pub fn code(&self, symbol: u8) -> Code {
        self.codes[usize::from(symbol)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::histogram::count;

    fn rounded(text: &[u8], bits: u32) -> Frequencies {
        Frequencies::round(&count(text), bits)
    }

    #[test]
    fn the_surplus_goes_to_the_most_frequent() {
        let table = rounded(b"abracadabra", 14);
        let of = |c: u8| table.0[usize::from(c)];
        assert_eq!(
            [of(b'a'), of(b'b'), of(b'c'), of(b'd'), of(b'r')],
            [7450, 2978, 1489, 1489, 2978]
        );
    }

    #[test]
    fn rare_symbols_are_paid_for_by_frequent_ones() {
        let mut counts = [1u64; 256];
        counts[9] = 1 << 40;
        for bits in [12, 14] {
            let table = Frequencies::round(&counts, bits);
            assert_eq!(table.most(), (1 << bits) - 255);
            assert_eq!(table.0.iter().filter(|&&f| f == 1).count(), 255);
        }
        counts[10] = 1 << 40;
        let table = Frequencies::round(&counts, 12);
        assert_eq!((table.0[9], table.0[10]), (2047 - 252, 2047));
    }

    #[test]
    fn one_symbol_has_every_slot() {
        let table = rounded(&[200; 5], 14);
        assert_eq!(table.most(), 1 << 14);
        let lookup = Lookup::<16384>::new(&table);
        assert_eq!(lookup.symbol(0), 200);
        assert_eq!(lookup.symbol(16383), 200);
        assert_eq!(lookup.code(200).frequency(), 1 << 14);
        assert_eq!(lookup.code(201).start(), 1 << 14);
    }
}
