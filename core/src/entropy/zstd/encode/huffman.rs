//! Huffman codes in the form that zstd uses (RFC 8878, 4.2): at most 11 bits,
//! assigned in the order of weight and symbol.

use alloc::vec::Vec;

use super::huffman_weights;
use crate::bytes::index;

/// The maximum length of a code in bits that a zstd decoder must accept.
const MAX_BITS: usize = 11;

/// The number of occurrences of each byte value.
pub type Counts = [u64; 256];

/// A complete prefix code and its description.
pub struct Code {
    /// The length of each symbol's code in bits, or 0 if it has none.
    lens: [u8; 256],
    codes: [u16; 256],
    description: Vec<u8>,
}

impl Code {
    /// Returns the shortest code for symbols with these counts, or `None` if
    /// there are fewer than two symbols or the code cannot be described.
    pub fn new(counts: &Counts) -> Option<Self> {
        Self::of_lens(lens(counts)?)
    }

    /// Returns the flat code with the fewest bits that has a code for every
    /// symbol with a count, or `None` if that takes more than seven bits.
    pub fn flat(counts: &Counts) -> Option<Self> {
        let last = counts.iter().rposition(|&count| count > 0)?;
        Self::of_bits(usize::BITS - last.leading_zeros())
    }

    /// Returns the code that assigns `bits` bits, 1 to 7, to each value below
    /// `1 << bits`.
    pub(crate) fn of_bits(bits: u32) -> Option<Self> {
        if !(1..=7).contains(&bits) {
            return None;
        }
        let mut lens = [0; 256];
        lens[..1 << bits].fill(bits.to_le_bytes()[0]);
        Self::of_lens(lens)
    }

    fn of_lens(lens: [u8; 256]) -> Option<Self> {
        let longest = lens.iter().copied().max()?;
        let last = lens.iter().rposition(|&len| len > 0)?;
        let weight = |len: u8| if len == 0 { 0 } else { longest + 1 - len };
        let all: Vec<u8> = lens.iter().map(|&len| weight(len)).collect();
        Some(Self {
            lens,
            codes: codes(&all),
            // The weight of the last symbol follows from the others.
            description: huffman_weights::describe(&all[..last])?,
        })
    }

    /// Returns the description of the code, which precedes the streams.
    pub fn description(&self) -> &[u8] {
        &self.description
    }

    /// Returns the number of bits of symbols with these counts, or `None` if
    /// one of them has no code.
    pub(crate) fn cost_bits(&self, counts: &Counts) -> Option<usize> {
        let mut bits = 0;
        for (&count, &len) in counts.iter().zip(&self.lens) {
            if count > 0 && len == 0 {
                return None;
            }
            bits += index(count) * usize::from(len);
        }
        Some(bits)
    }

    /// Returns the number of bits of every symbol if the code is flat. In a
    /// flat code, all values below a power of two, and no others, have codes of
    /// equal length, so each value is its own code.
    pub(crate) fn flat_bits(&self) -> Option<u32> {
        let bits = u32::from(self.lens[0]);
        let values = 1usize << bits;
        let is_flat = bits > 0
            && values <= 256
            && self.lens[..values]
                .iter()
                .all(|&len| u32::from(len) == bits)
            && self.lens[values..].iter().all(|&len| len == 0);
        is_flat.then_some(bits)
    }

    /// Returns the length of a symbol's code in bits, or 0 if it has none.
    pub(crate) fn len_bits(&self, symbol: u8) -> u8 {
        self.lens[usize::from(symbol)]
    }

    /// Returns the code of a symbol, whose first bit is the highest.
    pub fn code(&self, symbol: u8) -> u16 {
        self.codes[usize::from(symbol)]
    }
}

/// Returns the code of each symbol. Codes are assigned in the order of weights
/// (long codes first), then of values.
fn codes(weights: &[u8]) -> [u16; 256] {
    let mut codes = [0; 256];
    let mut next = 0u16;
    for weight in 1..=MAX_BITS {
        for (code, _) in codes
            .iter_mut()
            .zip(weights)
            .filter(|(_, w)| usize::from(**w) == weight)
        {
            *code = next;
            next += 1;
        }
        // Codes of the next weight are one bit shorter.
        next >>= 1;
    }
    codes
}

/// Returns the lengths of an optimal code of at most [`MAX_BITS`] bits, or
/// `None` for fewer than two symbols.
pub fn lens(counts: &Counts) -> Option<[u8; 256]> {
    let mut leaves: Vec<(u64, u8)> = (0..=255)
        .zip(counts)
        .map(|(symbol, &count)| (count, symbol))
        .filter(|(count, _)| *count > 0)
        .collect();
    if leaves.len() < 2 {
        return None;
    }
    leaves.sort_unstable();
    let mut bits = [0; 256];
    let bits = &mut bits[..leaves.len()];
    if !tree(&leaves, bits) {
        package_merge(&leaves, bits);
    }
    let mut lens = [0; 256];
    for ((_, symbol), &bits) in leaves.iter().zip(&*bits) {
        lens[usize::from(*symbol)] = bits;
    }
    Some(lens)
}

/// Computes the depths of the leaves of the Huffman tree, which is built with
/// two sorted queues. Returns `false` if a depth exceeds [`MAX_BITS`].
fn tree(leaves: &[(u64, u8)], bits: &mut [u8]) -> bool {
    let n = leaves.len();
    // Nodes are in ascending order of weight, and the parent of each comes
    // later.
    let mut weights = [0u64; 256];
    let mut leaf_parents = [0u8; 256];
    let mut parents = [0u8; 256];
    let (mut leaf, mut node) = (0, 0);
    for made in 0..n - 1 {
        let parent = made.to_le_bytes()[0];
        let mut sum = 0;
        for _ in 0..2 {
            // Of equal weights, the leaf is preferred, which keeps the tree
            // flat.
            if leaf < n && (node == made || leaves[leaf].0 <= weights[node]) {
                sum += leaves[leaf].0;
                leaf_parents[leaf] = parent;
                leaf += 1;
            } else {
                sum += weights[node];
                parents[node] = parent;
                node += 1;
            }
        }
        weights[made] = sum;
    }
    let mut depths = [0u8; 256];
    for inner in (0..n - 2).rev() {
        depths[inner] = depths[usize::from(parents[inner])] + 1;
    }
    for (bits, parent) in bits.iter_mut().zip(leaf_parents) {
        *bits = depths[usize::from(parent)] + 1;
    }
    // The rarest symbol is among the deepest.
    usize::from(bits[0]) <= MAX_BITS
}

/// Computes code lengths by package-merge (Larmore and Hirschberg 1990).
fn package_merge(leaves: &[(u64, u8)], bits: &mut [u8]) {
    const MAX_ITEMS: usize = 512;
    let n = leaves.len();
    // Each level holds the leaves and the pairs of items of the previous level,
    // in ascending order of weight. Only the number of leaves among the first
    // items is needed later.
    let mut leaves_before = [[0u16; MAX_ITEMS]; MAX_BITS];
    let mut below = [0u64; MAX_ITEMS];
    let mut below_len = 0;
    for level in &mut leaves_before {
        let mut items = [0u64; MAX_ITEMS];
        let (mut leaf, mut pair, mut len) = (0, 0, 0);
        let pairs = below_len / 2;
        while leaf < n || pair < pairs {
            let package = if pair < pairs {
                below[2 * pair] + below[2 * pair + 1]
            } else {
                u64::MAX
            };
            if leaf < n && leaves[leaf].0 <= package {
                items[len] = leaves[leaf].0;
                leaf += 1;
            } else {
                items[len] = package;
                pair += 1;
            }
            len += 1;
            // The number of leaves is at most 256.
            level[len] = u16::try_from(leaf).unwrap_or(u16::MAX);
        }
        (below, below_len) = (items, len);
    }
    // Takes the cheapest 2n - 2 items of the top level. A leaf gets one bit
    // each time it is among them; a package represents two items one level
    // down.
    bits.fill(0);
    let mut wanted = 2 * n - 2;
    for level in leaves_before.iter().rev() {
        let chosen = usize::from(level[wanted]);
        bits[..chosen].iter_mut().for_each(|len| *len += 1);
        wanted = 2 * (wanted - chosen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(u8, u64)]) -> Counts {
        let mut counts = [0; 256];
        for &(symbol, count) in of {
            counts[usize::from(symbol)] = count;
        }
        counts
    }

    #[test]
    fn lengths_of_a_known_code() {
        // The codes of a b r c d in "abracadabra" take 23 bits in total.
        let of = counts(&[(b'a', 5), (b'b', 2), (b'r', 2), (b'c', 1), (b'd', 1)]);
        assert_eq!(Code::new(&of).unwrap().cost_bits(&of), Some(23));
        assert!(Code::new(&counts(&[(7, 100)])).is_none());
    }

    #[test]
    fn lengths_are_limited_and_the_code_is_complete() {
        // Fibonacci numbers, whose Huffman code has lengths up to their number.
        let (mut a, mut b) = (1, 1);
        let mut of = [0; 256];
        for count in of.iter_mut().take(40) {
            *count = a;
            (a, b) = (b, a + b);
        }
        let lens = lens(&of).unwrap();
        let kraft: u32 = lens
            .iter()
            .filter(|len| **len > 0)
            .map(|&len| 1 << (11 - len))
            .sum();
        assert_eq!(kraft, 1 << 11);
        assert_eq!(lens[..40].iter().max(), Some(&11));
    }
}
