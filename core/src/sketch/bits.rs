//! Entropies in fixed point. They decide which base a checkpoint is packed
//! against, so they are integers, which are the same on every machine.

/// One bit, in the unit of this module.
pub const ONE: u64 = 1 << 16;

/// Half of 1/ln 2 bits: the Miller–Madow correction. For each further value
/// that occurs, a sample of any length underestimates its total entropy by this
/// much.
const HIDDEN_PER_VALUE: u64 = 47_274;

/// Returns the logarithm of `number` to base 2, rounded down; 0 for 0.
pub fn log2(number: u64) -> u64 {
    let Some(whole) = number.checked_ilog2() else {
        return 0;
    };
    // The number has 32 bits, 31 of them after the binary point.
    let mut mantissa = (number << (63 - whole)) >> 32;
    let mut fraction = 0;
    for _ in 0..16 {
        mantissa = (mantissa * mantissa) >> 31;
        let carry = mantissa >> 32;
        fraction = fraction << 1 | carry;
        mantissa >>= carry;
    }
    u64::from(whole) * ONE + fraction
}

/// Returns the bits that a symbol takes if it occurs `count` times of `total`.
pub fn cost(count: u64, total: u64) -> u64 {
    log2(total).saturating_sub(log2(count))
}

/// Returns the bits of a sample with these counts of values, coded with their
/// own distribution.
pub fn of_counts(counts: impl Iterator<Item = u64> + Clone) -> u64 {
    let total: u64 = counts.clone().sum();
    let (mut bits, mut values) = (0u64, 0u64);
    for count in counts.filter(|&count| count > 0) {
        bits += count * cost(count, total);
        values += 1;
    }
    bits + values.saturating_sub(1) * HIDDEN_PER_VALUE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms() {
        for (number, expected) in [(0, 0), (1, 0), (2, ONE), (1 << 63, 63 * ONE)] {
            assert_eq!(log2(number), expected);
        }
        for number in 1..5000_u32 {
            let exact = f64::from(number).log2() * ONE as f64;
            assert!(
                (log2(number.into()) as f64 - exact).abs() < 1.01,
                "{number}"
            );
        }
    }

    #[test]
    fn entropies() {
        assert_eq!(of_counts([7, 0].into_iter()), 0);
        assert_eq!(of_counts([4, 4].into_iter()), 8 * ONE + HIDDEN_PER_VALUE);
    }
}
