//! The description of a Huffman code by the weights of its symbols (RFC 8878,
//! 4.2.1).

use super::streams::Backwards;
use super::{Fault, fse_distribution};
use crate::entropy::zstd::fse;

/// Maximum length of a code in bits. RFC 8878 specifies 11; C zstd accepts 12.
pub const MAX_BITS: u32 = 12;
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
        let (log, stream) = fse_distribution::read(bytes, &MAX_VALUES, &mut shares)?;
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
