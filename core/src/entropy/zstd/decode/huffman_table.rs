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

/// Up to [`MAX_SEVERAL`] symbols whose codes are completely contained in the
/// bits that index the entry. The lowest byte is the total length of these codes
/// in bits, the symbols follow, and the topmost byte is their number.
#[derive(Debug, Clone, Copy, Default)]
pub struct Several(u64);

/// Maximum number of symbols of an entry.
const MAX_SEVERAL: u32 = 6;
/// The bytes of an entry that contain symbols.
const SYMBOLS: u64 = 0x00FF_FFFF_FFFF_FF00;

impl Several {
    /// Returns the symbols and surplus bytes after them.
    #[inline(always)]
    pub fn symbols(self) -> [u8; 8] {
        (self.0 >> 8).to_le_bytes()
    }

    /// Returns the total length of the codes in bits.
    #[inline(always)]
    pub fn bits(self) -> u64 {
        self.0 & 63
    }

    /// Returns the number of symbols.
    #[inline(always)]
    pub fn count(self) -> usize {
        (self.0 >> 56) as usize
    }

    /// Returns an entry of `first` and the symbols of this entry, which must be
    /// fewer than [`MAX_SEVERAL`].
    #[inline(always)]
    fn after(self, first: One) -> Self {
        let symbols = (self.0 & SYMBOLS) << 8 & SYMBOLS | u64::from(first.symbol) << 8;
        let lens = (self.0 & !SYMBOLS) + (1 << 56 | u64::from(first.bits));
        Self(symbols | lens)
    }

    /// Returns whether the entry has [`MAX_SEVERAL`] symbols.
    #[inline(always)]
    fn is_full(self) -> bool {
        self.0 >> 56 == u64::from(MAX_SEVERAL)
    }

    /// Removes the last symbol of a full entry. `lens` has the lengths of the
    /// codes.
    fn without_last(self, lens: &[u8; 256]) -> Self {
        let [_, _, _, _, _, _, last, _] = self.0.to_le_bytes();
        Self(self.0 - (1 << 56 | u64::from(lens[usize::from(last)])))
    }
}

/// The decoding tables of a code.
pub struct Code {
    /// One symbol for each value of the next `one_bits` bits; empty for a flat
    /// code.
    one: Box<[One]>,
    one_bits: u32,
    /// The result of [`several`]; empty until its first use.
    several: Box<[Several]>,
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
                several: Box::default(),
                flat_bits: Some(flat_bits),
            };
            return Ok((flat, rest));
        }
        let one_bits = bits.max(SEVERAL_BITS);
        let mut one = alloc::vec![One::default(); 1 << one_bits].into_boxed_slice();
        // Entries are ordered by descending code length, then by symbol.
        let entries = |weight: u8| 1 << (u32::from(weight) - 1 + one_bits - bits);
        let mut starts = [0; MAX_BITS as usize + 2];
        for &weight in weights.iter().filter(|weight| **weight > 0) {
            starts[usize::from(weight) + 1] += entries(weight);
        }
        for weight in 1..starts.len() {
            starts[weight] += starts[weight - 1];
        }
        for (symbol, weight) in (0..=u8::MAX).zip(weights).filter(|(_, weight)| *weight > 0) {
            let start = &mut starts[usize::from(weight)];
            let len = entries(weight);
            let bits = (bits + 1 - u32::from(weight)).to_le_bytes()[0];
            one[*start..][..len].fill(One { symbol, bits });
            *start += len;
        }
        Ok((
            Self {
                one,
                one_bits,
                several: Box::default(),
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

    /// Returns the symbol whose code is at the start of `word`, in its topmost
    /// bits.
    #[inline]
    pub fn one(&self, word: u64) -> One {
        self.one[(word >> (64 - MAX_BITS) >> (MAX_BITS - self.one_bits)) as usize]
    }

    /// Returns the table of several symbols at a time, or `None` if codes are
    /// too long for it. The table is built on first use, because it is not
    /// worthwhile for few literals.
    pub fn several(&mut self) -> Option<&[Several; SEVERAL_LEN]> {
        if self.several.is_empty() {
            let one: &[One; SEVERAL_LEN] = (&*self.one).try_into().ok()?;
            self.several = several(one);
        }
        self.several.last_chunk()
    }
}

/// Returns the length of all codes in bits if a complete code is flat.
pub fn flat_bits(weights: &[u8; 256], bits: u32) -> Option<u32> {
    let (used, others) = weights.split_at_checked(1 << bits)?;
    let is_flat = bits < 8 && used.iter().all(|&w| w == 1) && others.iter().all(|&w| w == 0);
    is_flat.then_some(bits)
}

/// Returns tables of several symbols for the next 0 to [`SEVERAL_BITS`] bits. The
/// table for `bits` bits starts at `1 << bits`, so the last one, which is the one
/// for decoding, is the second half.
///
/// All entries that start with the same symbol are the entries for the bits after
/// its code, with the symbol put first. Entries without a whole code and tables
/// that no code requires remain empty.
fn several(one: &[One; SEVERAL_LEN]) -> Box<[Several]> {
    let mut tables = alloc::vec![Several::default(); 2 * SEVERAL_LEN].into_boxed_slice();
    // Entries are ordered by descending code length.
    let shortest = u32::from(one[SEVERAL_LEN - 1].bits);
    let may_be_full = shortest * MAX_SEVERAL < SEVERAL_BITS;
    let lens = lens(one);
    for bits in (0..=SEVERAL_BITS - shortest).chain([SEVERAL_BITS]) {
        let (smaller, table) = tables.split_at_mut(1 << bits);
        let mut start = 0;
        while start < 1 << bits {
            let first = one[start << (SEVERAL_BITS - bits)];
            let Some(bits_after) = bits.checked_sub(first.bits.into()) else {
                start += 1;
                continue;
            };
            let rest = &smaller[1 << bits_after..2 << bits_after];
            for (entry, &rest) in table[start..].iter_mut().zip(rest) {
                *entry = if may_be_full && rest.is_full() {
                    rest.without_last(&lens).after(first)
                } else {
                    rest.after(first)
                };
            }
            start += rest.len();
        }
    }
    tables
}

/// Returns the length in bits of the code of each symbol.
fn lens(one: &[One; SEVERAL_LEN]) -> [u8; 256] {
    let mut lens = [0; 256];
    let mut start = 0;
    while let Some(&One { symbol, bits }) = one.get(start) {
        lens[usize::from(symbol)] = bits;
        start += SEVERAL_LEN >> bits;
    }
    lens
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
