//! Frequencies of symbols (docs/formats/zxd1.md 7): their serialised form, the
//! rounding of counts to frequencies, and the code lengths that they result in.
//!
//! Code lengths are in fixed point. Encoders base decisions on them, so they
//! are exact integers that are the same on every platform.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::{SLOT_BITS, SLOTS};
use crate::entropy::bits::{BitReader, BitWriter};
use crate::{Error, Result, Rule};

/// Number of bits of the field that gives the length of a frequency in bits.
const LENGTH_BITS: u32 = 4;

/// The frequencies of a contiguous range of symbols.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frequencies {
    first: u8,
    /// The frequencies of `first` and the symbols after it, which sum to
    /// [`SLOTS`].
    frequencies: Vec<u16>,
}

impl Frequencies {
    /// Returns the table of a single symbol, which takes no bits to code.
    #[must_use]
    pub fn single(symbol: u8) -> Self {
        Self {
            first: symbol,
            frequencies: vec![1 << SLOT_BITS],
        }
    }

    /// Reads a serialised table.
    pub fn read(bits: &mut BitReader) -> Result<Self> {
        let wrong = |detail| Error::malformed(Rule::InterleavedTable, detail);
        let first = bits.take(8, "first symbol of a table")?;
        let last = bits.take(8, "last symbol of a table")?;
        if first > last {
            return Err(wrong(format!(
                "a table's first symbol {first} is after its last one, {last}"
            )));
        }
        let mut sum = 0;
        let mut frequencies = Vec::new();
        for _ in first..=last {
            let frequency = match bits.take(LENGTH_BITS, "length of a frequency")? {
                0 => 0,
                length => 1 << (length - 1) | bits.take(length - 1, "frequency")?,
            };
            sum += frequency;
            // A frequency that does not fit cannot give the right sum.
            frequencies.push(u16::try_from(frequency).unwrap_or(u16::MAX));
        }
        if sum != SLOTS {
            return Err(wrong(format!(
                "the frequencies of a table sum to {sum} instead of {SLOTS}"
            )));
        }
        #[allow(clippy::cast_possible_truncation)] // read as eight bits
        let first = first as u8;
        Ok(Self { first, frequencies })
    }

    /// Appends the serialised table.
    pub fn write(&self, out: &mut BitWriter) {
        out.put(self.first.into(), 8);
        out.put(self.last().into(), 8);
        for &frequency in &self.frequencies {
            let length = frequency.checked_ilog2().map_or(0, |log| log + 1);
            out.put(length.into(), LENGTH_BITS);
            if let Some(rest @ 1..) = length.checked_sub(1) {
                out.put(u64::from(frequency) & ((1 << rest) - 1), rest);
            }
        }
    }

    /// Returns the number of bits that [`Frequencies::write`] appends.
    #[must_use]
    pub(crate) fn len_bits(&self) -> u64 {
        let lens = self.frequencies.iter().map(|&frequency| {
            let rest = frequency.checked_ilog2().unwrap_or(0);
            u64::from(LENGTH_BITS + rest)
        });
        16 + lens.sum::<u64>()
    }

    /// Returns the first symbol.
    #[must_use]
    pub fn first(&self) -> u8 {
        self.first
    }

    /// Returns the last symbol.
    #[must_use]
    pub fn last(&self) -> u8 {
        let more = u8::try_from(self.frequencies.len() - 1);
        more.map_or(u8::MAX, |more| self.first.saturating_add(more))
    }

    /// Returns the only symbol that occurs, if there is exactly one.
    #[must_use]
    pub fn only(&self) -> Option<u8> {
        let (symbol, _) = self.iter().find(|(_, f)| u32::from(*f) == SLOTS)?;
        Some(symbol)
    }

    /// Returns the largest frequency.
    #[must_use]
    pub fn most(&self) -> u32 {
        self.frequencies.iter().copied().max().unwrap_or(0).into()
    }

    /// Returns the symbols from the first to the last with their frequencies.
    pub fn iter(&self) -> impl Iterator<Item = (u8, u16)> + '_ {
        (self.first..=u8::MAX).zip(self.frequencies.iter().copied())
    }

    /// Rounds counts to frequencies. At least one count must be positive. Every
    /// symbol that occurs keeps a frequency. The difference from the required
    /// sum is assigned to the symbols where it costs the fewest bits.
    ///
    /// # Panics
    /// If there are counts of more than 256 symbols.
    #[must_use]
    pub fn round(counts: &[u32]) -> Self {
        let first = counts.iter().position(|&n| n > 0).unwrap_or(0);
        let last = counts.iter().rposition(|&n| n > 0).unwrap_or(first);
        let Some(counts) = counts.get(first..=last) else {
            return Self::single(0);
        };
        let first = u8::try_from(first).expect("at most 256 symbols");
        let total: u64 = counts.iter().map(|&n| u64::from(n)).sum();
        let total = total.max(1);
        let mut rounded: Vec<u32> = counts
            .iter()
            .map(|&n| {
                let nearest = (u64::from(n) * u64::from(SLOTS) * 2 + total) / (2 * total);
                // A count is at most the total.
                u32::try_from(nearest).map_or(SLOTS, |f| f.max(u32::from(n > 0)))
            })
            .collect();
        let sum: u32 = rounded.iter().sum();
        for _ in sum..SLOTS {
            let gain = |(n, f): (&u32, &u32)| u64::from(*n) * (log(f + 1) - log(*f));
            let best = best(
                counts,
                &rounded,
                |i| counts[i] > 0,
                |n, f| gain((n, f)),
                true,
            );
            rounded[best] += 1;
        }
        for _ in SLOTS..sum {
            let loss = |(n, f): (&u32, &u32)| u64::from(*n) * (log(*f) - log(f - 1));
            let best = {
                let allowed: Vec<bool> = rounded.iter().map(|&f| f > 1).collect();
                best(counts, &rounded, |i| allowed[i], |n, f| loss((n, f)), false)
            };
            rounded[best] -= 1;
        }
        Self {
            first,
            frequencies: rounded
                .into_iter()
                .map(|f| u16::try_from(f).unwrap_or(u16::MAX))
                .collect(),
        }
    }
}

fn log(frequency: u32) -> u64 {
    log2(frequency.into())
}

/// Returns the index of the largest or smallest value among the `allowed` ones.
/// If several are equal, it is the first one.
fn best(
    counts: &[u32],
    frequencies: &[u32],
    allowed: impl Fn(usize) -> bool,
    value: impl Fn(&u32, &u32) -> u64,
    largest: bool,
) -> usize {
    let mut best: Option<(usize, u64)> = None;
    for (i, (n, f)) in counts.iter().zip(frequencies).enumerate() {
        if !allowed(i) {
            continue;
        }
        let value = value(n, f);
        let is_better = match best {
            None => true,
            Some((_, known)) if largest => value > known,
            Some((_, known)) => value < known,
        };
        if is_better {
            best = Some((i, value));
        }
    }
    best.map_or(0, |(i, _)| i)
}

/// Number of fractional bits of costs, whose unit is `2^-FRACTION_BITS` bits.
pub(crate) const FRACTION_BITS: u32 = 16;

/// Binary logarithm of the number of steps per octave in the table of
/// logarithms.
const STEP_BITS: u32 = 8;

/// Base-2 logarithms of `1 + i / 256`, in units of `2^-24`.
const LOGARITHMS: [u32; (1 << STEP_BITS) + 1] = {
    let mut table = [0; (1 << STEP_BITS) + 1];
    let mut i = 0;
    while i < 1 << STEP_BITS {
        // Squaring doubles the logarithm, so each of its bits appears as a
        // carry into the integer part. The argument has 30 fractional bits.
        let mut x = ((1 << STEP_BITS) + i as u64) << (30 - STEP_BITS);
        let mut bits = 0;
        let mut n = 0;
        while n < 24 {
            x = (x * x) >> 30;
            bits <<= 1;
            if x >= 2 << 30 {
                x >>= 1;
                bits |= 1;
            }
            n += 1;
        }
        table[i] = bits;
        i += 1;
    }
    table[1 << STEP_BITS] = 1 << 24;
    table
};

/// Returns the base-2 logarithm of `n >= 1` in units of `2^-FRACTION_BITS`
/// bits. The result is too small by at most one unit.
#[must_use]
pub fn log2(n: u64) -> u64 {
    let lead = n.max(1).ilog2();
    // The bits after the leading one, left-aligned.
    let rest = if lead == 0 { 0 } else { n << (64 - lead) };
    let step = crate::bytes::index(rest >> (64 - STEP_BITS));
    let between = rest << STEP_BITS >> 40;
    let (low, high) = (LOGARITHMS[step], LOGARITHMS[step + 1]);
    let fraction = u64::from(low) + ((u64::from(high - low) * between) >> 24);
    (u64::from(lead) << FRACTION_BITS) + (fraction >> (24 - FRACTION_BITS))
}

/// Returns the entropy of symbols with these counts in units of
/// `2^-FRACTION_BITS` bits. The counts must sum to less than `2^40`.
#[must_use]
pub(crate) fn entropy_cost(counts: &[u32]) -> u64 {
    let weighted = |n: u64| n * log2(n);
    let total: u64 = counts.iter().map(|&n| u64::from(n)).sum();
    let parts: u64 = counts
        .iter()
        .filter(|&&n| n > 1)
        .map(|&n| weighted(n.into()))
        .sum();
    weighted(total).saturating_sub(parts)
}

/// Estimates the length of a table for these counts, in units of
/// `2^-FRACTION_BITS` bits.
#[must_use]
pub(crate) fn table_len_cost(counts: &[u32]) -> u64 {
    let total: u64 = counts.iter().map(|&n| u64::from(n)).sum();
    let first = counts.iter().position(|&n| n > 0).unwrap_or(0);
    let last = counts.iter().rposition(|&n| n > 0).unwrap_or(first);
    let bits = counts[first..=last].iter().map(|&n| {
        let frequency = (u64::from(n) << SLOT_BITS) / total.max(1);
        4 + u64::from(frequency.max(1).ilog2())
    });
    (16 + bits.sum::<u64>()) << FRACTION_BITS
}

/// Returns the cost of coding symbols with these counts using the table
/// `frequencies`, in units of `2^-FRACTION_BITS` bits. Every symbol that occurs
/// must have a frequency.
#[must_use]
pub(crate) fn table_cost(counts: &[u32], frequencies: &Frequencies) -> u64 {
    let full = u64::from(SLOT_BITS) << FRACTION_BITS;
    let costs = frequencies.iter().map(|(symbol, frequency)| {
        let count = counts.get(usize::from(symbol)).copied().unwrap_or(0);
        u64::from(count) * (full - log2(u64::from(frequency).max(1)))
    });
    costs.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_are_those_of_the_reals() {
        let scale = f64::from(1u32 << FRACTION_BITS);
        for n in (1..5000).chain([65535, 65536, 1 << 40, (1 << 40) - 1, u64::MAX]) {
            let truth = (n as f64).log2();
            let error = truth - log2(n) as f64 / scale;
            assert!((-1e-9..2.0 / scale).contains(&error), "{n}: {error}");
        }
        assert_eq!(log2(0), 0);
        assert_eq!(log2(4096), 12 << FRACTION_BITS);
    }

    #[test]
    fn entropies_of_known_distributions() {
        assert_eq!(entropy_cost(&[0, 7]), 0);
        assert_eq!(entropy_cost(&[]), 0);
        assert_eq!(entropy_cost(&[4, 0, 2, 1, 1]), 14 << FRACTION_BITS);
        assert_eq!(entropy_cost(&[16; 256]), (8 * 16 * 256) << FRACTION_BITS);
    }
}
