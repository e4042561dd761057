//! Huffman codes as zstd uses them (RFC 8878, 4.2): at most 11 bits, handed
//! out in the order of weight and symbol.

use alloc::vec;
use alloc::vec::Vec;

use super::bits::BitWriter;
use super::weights;

/// Longest code a zstd decoder takes, in bits.
const MOST_BITS: usize = 11;

/// How often each byte occurs.
pub type Counts = [u32; 256];

/// Counts the bytes of a block.
pub fn count(bytes: &[u8]) -> Counts {
    // Four tables, so that runs of one value do not wait for each other.
    let mut tables = [[0u32; 256]; 4];
    let groups = bytes.chunks_exact(4);
    for &byte in groups.remainder() {
        tables[0][usize::from(byte)] += 1;
    }
    for group in groups {
        for (table, &byte) in tables.iter_mut().zip(group) {
            table[usize::from(byte)] += 1;
        }
    }
    core::array::from_fn(|byte| tables.iter().map(|table| table[byte]).sum())
}

/// A complete prefix code and its description.
pub struct Code {
    /// Bits of each symbol, 0 for one without code.
    lens: [u8; 256],
    codes: [u16; 256],
    description: Vec<u8>,
}

impl Code {
    /// The shortest code for symbols of these counts; `None` for fewer than
    /// two symbols, and for codes that cannot be described.
    pub fn new(counts: &Counts) -> Option<Self> {
        let lens = lens(counts)?;
        let longest = lens.iter().copied().max()?;
        let last = lens.iter().rposition(|&len| len > 0)?;
        let weight = |len: u8| if len == 0 { 0 } else { longest + 1 - len };
        let all: Vec<u8> = lens.iter().map(|&len| weight(len)).collect();
        Some(Self {
            lens,
            codes: codes(&all),
            // The weight of the last symbol follows from the others.
            description: weights::describe(&all[..last])?,
        })
    }

    /// What stands in front of the streams.
    pub fn description(&self) -> &[u8] {
        &self.description
    }

    /// Bits of a text with these counts; `None` where a symbol has no code.
    pub fn cost_bits(&self, counts: &Counts) -> Option<usize> {
        let mut bits = 0;
        for (&count, &len) in counts.iter().zip(&self.lens) {
            if count > 0 && len == 0 {
                return None;
            }
            bits += count as usize * usize::from(len);
        }
        Some(bits)
    }

    /// Appends one stream, whose symbols all have codes.
    pub fn encode(&self, symbols: &[u8], out: &mut Vec<u8>) {
        let mut bits = BitWriter::new(out);
        // Last symbol first, since the stream is read from its end. Four codes
        // and what is left of a byte fit in a word.
        let groups = symbols.rchunks_exact(4);
        let first = groups.remainder();
        for group in groups {
            for &symbol in group.iter().rev() {
                self.hold(symbol, &mut bits);
            }
            bits.flush();
        }
        for &symbol in first.iter().rev() {
            self.hold(symbol, &mut bits);
        }
        bits.flush();
        bits.finish_marked();
    }

    fn hold(&self, symbol: u8, bits: &mut BitWriter) {
        let symbol = usize::from(symbol);
        bits.hold(self.codes[symbol].into(), self.lens[symbol].into());
    }
}

/// Code of each symbol: those of low weight (long codes) first, and among
/// them in the order of their values.
fn codes(weights: &[u8]) -> [u16; 256] {
    let mut codes = [0; 256];
    let mut next = 0u16;
    for weight in 1..=MOST_BITS {
        for (code, _) in codes
            .iter_mut()
            .zip(weights)
            .filter(|(_, w)| usize::from(**w) == weight)
        {
            *code = next;
            next += 1;
        }
        // One bit less for the weight that follows.
        next >>= 1;
    }
    codes
}

/// Lengths of an optimal code of at most [`MOST_BITS`] bits: package-merge
/// (Larmore and Hirschberg 1990).
fn lens(counts: &Counts) -> Option<[u8; 256]> {
    let mut leaves: Vec<(u64, usize)> = counts
        .iter()
        .enumerate()
        .filter(|(_, count)| **count > 0)
        .map(|(symbol, &count)| (count.into(), symbol))
        .collect();
    if leaves.len() < 2 {
        return None;
    }
    leaves.sort_unstable();

    // Each level holds the leaves and, in pairs, all of the level before.
    // Only which of them are leaves is needed later.
    let mut levels: Vec<Vec<bool>> = Vec::with_capacity(MOST_BITS);
    let mut below: Vec<u64> = Vec::new();
    for _ in 0..MOST_BITS {
        let mut packages = below
            .chunks_exact(2)
            .map(|pair| pair[0] + pair[1])
            .peekable();
        let mut leaf = leaves.iter().map(|(count, _)| *count).peekable();
        let mut level = Vec::with_capacity(2 * leaves.len());
        let mut kinds = Vec::with_capacity(2 * leaves.len());
        loop {
            let is_leaf = match (leaf.peek(), packages.peek()) {
                (Some(leaf), Some(package)) => leaf <= package,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (None, None) => break,
            };
            kinds.push(is_leaf);
            level.extend(if is_leaf {
                leaf.next()
            } else {
                packages.next()
            });
        }
        below = level;
        levels.push(kinds);
    }

    // The cheapest 2n - 2 items of the top level; a leaf gets a bit each time
    // it is among them, a package stands for two items one level down.
    let mut bits = vec![0u8; leaves.len()];
    let mut wanted = 2 * leaves.len() - 2;
    for kinds in levels.iter().rev() {
        let chosen = kinds[..wanted].iter().filter(|is_leaf| **is_leaf).count();
        bits[..chosen].iter_mut().for_each(|len| *len += 1);
        wanted = 2 * (wanted - chosen);
    }
    let mut lens = [0; 256];
    for ((_, symbol), len) in leaves.into_iter().zip(bits) {
        lens[symbol] = len;
    }
    Some(lens)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: &[(u8, u32)]) -> Counts {
        let mut counts = [0; 256];
        for &(symbol, count) in of {
            counts[usize::from(symbol)] = count;
        }
        counts
    }

    #[test]
    fn lengths_of_a_known_code() {
        // a b r c d of "abracadabra": 23 bits in all.
        let of = counts(&[(b'a', 5), (b'b', 2), (b'r', 2), (b'c', 1), (b'd', 1)]);
        assert_eq!(Code::new(&of).unwrap().cost_bits(&of), Some(23));
        assert!(Code::new(&counts(&[(7, 100)])).is_none());
    }

    #[test]
    fn lengths_are_limited_and_the_code_is_complete() {
        // Fibonacci numbers, whose Huffman code would be as long as they are many.
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
