//! A Huffman code (RFC 8878, 4.2.1): its description by the weights of its
//! symbols, and the tables that are indexed by the next bits of a stream.

use alloc::boxed::Box;

use super::Fault;
use super::huffman_streams::Backwards;
use crate::entropy::zstd::fse;

/// Number of bits that index the table of [`Several`].
pub(crate) const SEVERAL_BITS: u32 = 11;
/// Number of entries of the table of [`Several`].
pub(crate) const SEVERAL_LEN: usize = 1 << SEVERAL_BITS;

/// The entry for bits that start with the code of a symbol: the symbol and the
/// length of that code.
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
    pub(crate) fn is_flat(bytes: &[u8]) -> bool {
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

/// Maximum length of a code in bits. RFC 8878 specifies 11; C zstd accepts 12.
pub(crate) const MAX_BITS: u32 = 12;
/// The smallest header byte that marks uncompressed weights.
const DIRECT: u8 = 128;
/// The maximum number of values in tables of 32 and of 64 states for weights. C
/// zstd has no space for more, and weights above [`MAX_BITS`] are invalid
/// anyway.
const MAX_VALUES: [usize; 2] = [92, 12];

/// The weights of consecutive symbols, starting with symbol 0.
pub struct Weights {
    all: [u8; 256],
    len: usize,
}

impl Weights {
    /// Parses the description at the start of `bytes`, and returns the bytes
    /// after it. The description lacks the last weight, which follows from the
    /// others.
    pub fn read(bytes: &[u8]) -> Result<(Self, &[u8]), Fault> {
        let (&head, rest) = bytes.split_first().ok_or(SHORT)?;
        let mut weights = Self {
            all: [0; 256],
            len: 0,
        };
        let len = if head >= DIRECT {
            usize::from(head - DIRECT + 1).div_ceil(2)
        } else {
            head.into()
        };
        let (body, rest) = rest.split_at_checked(len).ok_or(SHORT)?;
        if head >= DIRECT {
            for (pair, byte) in weights.all.as_chunks_mut::<2>().0.iter_mut().zip(body) {
                *pair = [byte >> 4, byte & 15];
            }
            weights.len = usize::from(head - DIRECT + 1);
        } else {
            weights.decompress(body)?;
        }
        Ok((weights, rest))
    }

    /// Adds the last weight, which makes the code complete. Returns the weights
    /// of all symbols and the length of the longest code in bits.
    pub fn complete(mut self) -> Result<([u8; 256], u32), Fault> {
        // Clears the padding of a direct description.
        self.all[self.len..].fill(0);
        let mut sum = 0u32;
        for &weight in &self.all[..self.len] {
            if u32::from(weight) > MAX_BITS {
                return Err(Fault("a weight of a Huffman code is too large"));
            }
            sum += 1 << weight >> 1;
        }
        let bits = sum.checked_ilog2().ok_or(INCOMPLETE)? + 1;
        let rest = (1 << bits) - sum;
        if bits > MAX_BITS || !rest.is_power_of_two() {
            return Err(INCOMPLETE);
        }
        self.push(rest.ilog2().to_le_bytes()[0] + 1)?;
        // The number of codes of maximum length must be even and positive.
        let longest = self.all.iter().filter(|weight| **weight == 1).count();
        if longest < 2 || longest % 2 == 1 {
            return Err(INCOMPLETE);
        }
        Ok((self.all, bits))
    }

    /// Decompresses weights with two alternating states. The weights end with
    /// the stream.
    fn decompress(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let mut shares = [0; MAX_VALUES[0]];
        let (log, stream) = fse::read_distribution(bytes, &MAX_VALUES, &mut shares)?;
        let table = fse::states(&shares, log);
        let mut stream = Backwards::new(stream)?;
        let mut states = [0; 2];
        for state in &mut states {
            *state = stream.take(log).ok_or(OVER)?;
        }
        loop {
            for turn in 0..2 {
                let state = table[states[turn]];
                self.push(state.value)?;
                match stream.take(state.bits) {
                    Some(bits) => states[turn] = state.base + bits,
                    None => return self.push(table[states[1 - turn]].value),
                }
                // One more weight would leave no space for the last one.
                if self.len == self.all.len() - 2 {
                    return Err(TOO_MANY);
                }
            }
        }
    }

    fn push(&mut self, weight: u8) -> Result<(), Fault> {
        *self.all.get_mut(self.len).ok_or(TOO_MANY)? = weight;
        self.len += 1;
        Ok(())
    }
}

const SHORT: Fault = Fault("a block ends inside the description of a Huffman code");
const OVER: Fault = Fault("the weights of a Huffman code end too early");
const INCOMPLETE: Fault = Fault("the weights of a Huffman code do not make it complete");
const TOO_MANY: Fault = Fault("a Huffman code has too many weights");
