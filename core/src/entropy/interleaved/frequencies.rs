//! Frequencies of symbols (docs/formats/zxd1.md 7): their serialised form, and
//! the rounding of counts to frequencies.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::cost;
use super::{SLOT_BITS, SLOTS};
use crate::entropy::bits::{BitReader, BitWriter};
use crate::{Error, Result, Rule};

/// Number of bits of the field that gives the length of a frequency.
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
    pub fn len_bits(&self) -> u64 {
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
    cost::log2(frequency.into())
}

/// Returns the index of the largest or smallest value among the `allowed` ones;
/// the first one if values are equal.
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
