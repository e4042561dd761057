//! Counts byte values, and computes lower bounds for the length of codes that
//! encode each symbol separately: the entropy, and the length of an optimal
//! Huffman code.

use alloc::vec::Vec;

/// Counts the occurrences of each byte value.
pub fn count(bytes: &[u8]) -> [u64; 256] {
    let mut counts = [0; 256];
    for part in bytes.chunks(MAX_COUNTED) {
        // With four tables, increments in a run of one value do not depend on
        // each other.
        let mut tables = [[0u32; 256]; 4];
        let (groups, rest) = part.as_chunks::<4>();
        for group in groups {
            for (table, &byte) in tables.iter_mut().zip(group) {
                table[usize::from(byte)] += 1;
            }
        }
        for &byte in rest {
            tables[0][usize::from(byte)] += 1;
        }
        for table in &tables {
            for (count, &more) in counts.iter_mut().zip(table) {
                *count += u64::from(more);
            }
        }
    }
    counts
}

/// Returns the sum of the counts of several parts.
pub fn sum(parts: &[[u64; 256]]) -> [u64; 256] {
    core::array::from_fn(|value| parts.iter().map(|counts| counts[value]).sum())
}

/// Returns the number of symbols with a positive count.
pub fn values(counts: &[u64]) -> usize {
    counts.iter().filter(|count| **count > 0).count()
}

/// The number of bytes that a 32-bit counter can safely count.
const MAX_COUNTED: usize = 1 << 31;

/// Returns the total entropy, in bits, of symbols with these counts.
pub(crate) fn entropy_bits(counts: &[u64]) -> f64 {
    let total = counts.iter().sum::<u64>() as f64;
    let bits = |&count: &u64| count as f64 * log2(total / count as f64);
    counts.iter().filter(|count| **count > 0).map(bits).sum()
}

/// Returns the length in bits of an optimal prefix code for symbols with these
/// counts. It is the sum of all inner nodes of the Huffman tree, which is built
/// with two sorted queues.
pub(crate) fn huffman_bits(counts: &[u64]) -> u64 {
    let mut weights: Vec<u64> = counts.iter().copied().filter(|&count| count > 0).collect();
    if let [only] = weights[..] {
        return only;
    }
    weights.sort_unstable();
    let mut inner: Vec<u64> = Vec::with_capacity(weights.len());
    let (mut leaf, mut node) = (0, 0);
    let mut total = 0;
    for _ in 1..weights.len() {
        let mut smallest = || match (weights.get(leaf), inner.get(node)) {
            (Some(&a), b) if b.is_none_or(|&b| a <= b) => {
                leaf += 1;
                a
            }
            (_, Some(&b)) => {
                node += 1;
                b
            }
            _ => 0,
        };
        let sum = smallest() + smallest();
        inner.push(sum);
        total += sum;
    }
    total
}

/// Returns the base-2 logarithm of `x >= 1` with an error of about 2^-40. It is
/// computed with a series, because `core` has no logarithm and every platform
/// must make the same choices.
fn log2(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = (bits >> 52 & 0x7FF) as f64 - 1023.0;
    let mantissa = f64::from_bits(bits & 0x000F_FFFF_FFFF_FFFF | 1023 << 52);
    // 1 <= mantissa < 2: ln m = 2 artanh((m - 1) / (m + 1)).
    let z = (mantissa - 1.0) / (mantissa + 1.0);
    let square = z * z;
    let sum = ODD_RECIPROCALS
        .iter()
        .rev()
        .fold(0.0, |sum, term| sum * square + term);
    exponent + 2.0 * z * sum * core::f64::consts::LOG2_E
}

/// The series 1, 1/3, 1/5 and so on.
const ODD_RECIPROCALS: [f64; 12] = {
    let mut terms = [1.0; 12];
    let mut k = 0;
    while k < 12 {
        terms[k] /= (2 * k + 1) as f64;
        k += 1;
    }
    terms
};

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

    #[test]
    fn codes_of_known_distributions() {
        assert_eq!(huffman_bits(&[]), 0);
        assert_eq!(huffman_bits(&[9]), 9);
        assert_eq!(huffman_bits(&[5, 5]), 10);
        // The codes of a b r c d in "abracadabra" have 1, 3, 3, 3 and 3 bits.
        assert_eq!(huffman_bits(&[5, 0, 2, 2, 1, 0, 1]), 23);
        assert_eq!(huffman_bits(&[16; 256]), 8 * 16 * 256);
        assert_eq!(huffman_bits(&[8, 4, 2, 1, 1]), 8 + 8 + 6 + 4 + 4);
    }
}
