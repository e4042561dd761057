//! Code lengths in fixed point. Encoders base decisions on them, so they are
//! exact integers that are the same on every platform.

use super::{Frequencies, SLOT_BITS};

/// Costs are in units of `2^-FRACTION_BITS` bits.
pub const FRACTION_BITS: u32 = 16;

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
pub fn entropy_cost(counts: &[u32]) -> u64 {
    let weighted = |n: u64| n * log2(n);
    let total: u64 = counts.iter().map(|&n| u64::from(n)).sum();
    let parts: u64 = counts
        .iter()
        .filter(|&&n| n > 1)
        .map(|&n| weighted(n.into()))
        .sum();
    weighted(total).saturating_sub(parts)
}

/// Returns the cost of coding symbols with these counts using the table
/// `frequencies`, in units of `2^-FRACTION_BITS` bits. Every symbol that occurs
/// must have a frequency.
#[must_use]
pub fn table_cost(counts: &[u32], frequencies: &Frequencies) -> u64 {
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
