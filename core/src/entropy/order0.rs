//! How short symbols can become that are coded one by one.

/// Bits of symbols with these counts, at their entropy.
pub fn entropy_bits(counts: &[u64]) -> f64 {
    let total = counts.iter().sum::<u64>() as f64;
    let bits = |&count: &u64| count as f64 * log2(total / count as f64);
    counts.iter().filter(|count| **count > 0).map(bits).sum()
}

/// Base-2 logarithm of `x >= 1`, to about 2^-40: a series, since `core` has
/// none and every platform has to come to the same choice.
fn log2(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = (bits >> 52 & 0x7FF) as f64 - 1023.0;
    let mantissa = f64::from_bits(bits & 0x000F_FFFF_FFFF_FFFF | 1023 << 52);
    // 1 <= mantissa < 2: ln m = 2 artanh((m - 1) / (m + 1)).
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let square = z * z;
    let mut sum = 0.0;
    let mut term = z;
    for k in 0..12u32 {
        sum += term / f64::from(2 * k + 1);
        term *= square;
    }
    exponent + 2.0 * sum * core::f64::consts::LOG2_E
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms() {
        for x in [1.0, 1.000_001, 1.3, 1.999_999, 2.0, 3.0, 10.0, 65536.0, 1e9] {
            let x: f64 = x;
            assert!((log2(x) - x.log2()).abs() < 1e-10, "{x}");
        }
        assert_eq!(log2(4096.0), 12.0);
    }

    #[test]
    fn entropies_of_known_distributions() {
        assert!((entropy_bits(&[1; 256]) - 2048.0).abs() < 1e-6);
        assert!((entropy_bits(&[4, 0, 2, 1, 1]) - 14.0).abs() < 1e-9);
        assert_eq!(entropy_bits(&[0, 0]), 0.0);
    }
}
