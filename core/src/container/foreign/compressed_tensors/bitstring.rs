//! Strings of codes with one to eight bits each
//! (docs/formats/compressed-tensors.md 7.2).

use crate::bytes::index;

/// The layout of consecutive codes. Codes begin at bit 0 of byte 0. The order
/// is the same in bytes and in little-endian words of 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    bits: u8,
    /// True if a word of 32 bits holds only whole codes, with padding after
    /// them.
    padded: bool,
}

impl Layout {
    /// Creates the layout without padding between codes.
    pub fn dense(bits: u8) -> Self {
        Self {
            bits,
            padded: false,
        }
    }

    /// Creates the layout of releases before 0.18, which pads every word.
    pub fn padded(bits: u8) -> Self {
        Self { bits, padded: true }
    }

    /// Returns the number of 32-bit words that `count` codes take.
    pub fn words(self, count: u64) -> u64 {
        let per_word = 32 / u64::from(self.bits);
        if self.padded {
            return count.div_ceil(per_word);
        }
        let words = (u128::from(count) * u128::from(self.bits)).div_ceil(32);
        u64::try_from(words).expect("at most a quarter of the count")
    }

    /// Returns code number `place` of `string`, which must be long enough.
    pub fn code(self, string: &[u8], place: usize) -> u8 {
        let (place, bits) = (place as u64, u64::from(self.bits));
        let bit = if self.padded {
            let per_word = 32 / bits;
            place / per_word * 32 + place % per_word * bits
        } else {
            place * bits
        };
        let byte = index(bit / 8);
        let next = string.get(byte + 1).copied().unwrap_or_default();
        let pair = u16::from_le_bytes([string[byte], next]) >> (bit % 8);
        pair.to_le_bytes()[0] & (0xFF >> (8 - self.bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_the_format() {
        let row = [0x10, 0xF8, 0xA9, 0xCB];
        for layout in [Layout::dense(4), Layout::padded(4)] {
            let codes: Vec<u8> = (0..8).map(|place| layout.code(&row, place)).collect();
            assert_eq!(codes, [0, 1, 8, 15, 9, 10, 11, 12]);
            assert_eq!((layout.words(8), layout.words(9)), (1, 2));
        }
    }

    #[test]
    fn dense_codes_cross_words_and_padded_ones_do_not() {
        // Bits 30 to 32 are set. They are code 10 in the layout without
        // padding, and belong to no single code in the padded one.
        let row = [0, 0, 0, 0xC0, 1, 0, 0, 0];
        assert_eq!(Layout::dense(3).code(&row, 10), 7);
        assert_eq!(Layout::padded(3).code(&row, 9), 0);
        assert_eq!(Layout::padded(3).code(&row, 10), 1);
    }

    #[test]
    fn word_counts_do_not_wrap() {
        assert_eq!(Layout::dense(7).words(u64::MAX), 4_035_225_266_123_964_416);
        assert_eq!(Layout::padded(3).words(0), 0);
        assert_eq!(
            (Layout::dense(3).words(21), Layout::padded(3).words(21)),
            (2, 3)
        );
    }
}
