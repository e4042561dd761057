//! A Huffman code as tables that are indexed by the next bits of a stream (RFC
//! 8878, 4.2.1).

use alloc::boxed::Box;

use super::Fault;
use super::weights::Weights;

/// Number of bits that index the table of [`Several`].
pub const SEVERAL_BITS: u32 = 11;
/// Number of entries of the table of [`Several`].
pub const SEVERAL_LEN: usize = 1 << SEVERAL_BITS;

/// The symbol whose code is at the start of some bits.
#[derive(Debug, Clone, Copy, Default)]
pub struct One {
    pub symbol: u8,
    /// Length of the symbol's code in bits.
    pub bits: u8,
}

/// Up to three symbols whose codes are completely contained in 11 bits. The
/// first symbol is in the lowest byte, the total length of the codes starts at
/// bit 24, and the number of symbols starts at bit 28.
pub type Several = u32;

/// The decoding tables of a code.
pub struct Code {
    /// One symbol for each value of the next `one_bits` bits; empty for a flat
    /// code.
    one: Box<[One]>,
    pub one_bits: u32,
    several: Option<Box<[Several; SEVERAL_LEN]>>,
    /// The number of bits of every symbol in a flat code. In such a code, all
    /// values below a power of two, and no others, have codes of equal length,
    /// so each value is its own code.
    pub flat_bits: Option<u32>,
}

impl Code {
    /// Parses the description at the start of `bytes`, and returns the bytes
    /// after it.
    pub fn read(bytes: &[u8]) -> Result<(Self, &[u8]), Fault> {
        let (weights, rest) = Weights::read(bytes)?;
        let (weights, bits) = weights.complete()?;
        if let Some(flat_bits) = flat_bits(&weights, bits) {
            let flat = Self {
                one: Box::default(),
                one_bits: bits,
                several: None,
                flat_bits: Some(flat_bits),
            };
            return Ok((flat, rest));
        }
        let one_bits = bits.max(SEVERAL_BITS);
        let mut one = alloc::vec![One::default(); 1 << one_bits].into_boxed_slice();
        let mut free = &mut one[..];
        // Entries are ordered by descending code length, then by symbol.
        for weight in 1..=bits {
            for (symbol, _) in (0..=u8::MAX)
                .zip(weights)
                .filter(|(_, w)| u32::from(*w) == weight)
            {
                let (entries, after) = free.split_at_mut(1 << (weight - 1 + one_bits - bits));
                let len = (bits + 1 - weight).to_le_bytes()[0];
                entries.fill(One { symbol, bits: len });
                free = after;
            }
        }
        Ok((
            Self {
                one,
                one_bits,
                several: None,
                flat_bits: None,
            },
            rest,
        ))
    }

    /// Returns whether `bytes` starts with the description of a flat code.
    pub fn is_flat(bytes: &[u8]) -> bool {
        let read = Weights::read(bytes).and_then(|(weights, _)| weights.complete());
        read.is_ok_and(|(weights, bits)| flat_bits(&weights, bits).is_some())
    }

    /// Returns the symbol whose code is at the start of `bits`, a value of
    /// `one_bits` bits.
    #[inline]
    pub fn one(&self, bits: usize) -> One {
        self.one[bits]
    }

    /// Returns the table of up to three symbols at a time, or `None` if codes
    /// are too long for it. The table is built on first use, because it is not
    /// worthwhile for few literals.
    pub fn several(&mut self) -> Option<&[Several; SEVERAL_LEN]> {
        if self.several.is_none() {
            let one: &[One; SEVERAL_LEN] = (&*self.one).try_into().ok()?;
            self.several = Some(several(one));
        }
        self.several.as_deref()
    }
}

fn flat_bits(weights: &[u8; 256], bits: u32) -> Option<u32> {
    let (used, others) = weights.split_at_checked(1 << bits)?;
    let is_flat = bits < 8 && used.iter().all(|&w| w == 1) && others.iter().all(|&w| w == 0);
    is_flat.then_some(bits)
}

fn several(one: &[One; SEVERAL_LEN]) -> Box<[Several; SEVERAL_LEN]> {
    let mut table = Box::new([0; SEVERAL_LEN]);
    for (start, entry) in table.iter_mut().enumerate() {
        let first = one[start];
        let mut used = u32::from(first.bits);
        let mut symbols = u32::from(first.symbol);
        let mut count = 1;
        while count < 3 {
            let next = one[start << used & (SEVERAL_LEN - 1)];
            if used + u32::from(next.bits) > SEVERAL_BITS {
                break;
            }
            symbols |= u32::from(next.symbol) << (8 * count);
            used += u32::from(next.bits);
            count += 1;
        }
        *entry = symbols | used << 24 | count << 28;
    }
    table
}
