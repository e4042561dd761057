//! The description of a Huffman code: weights of symbols (RFC 8878, 4.2.1).

use super::streams::Backwards;
use super::{Fault, shares};
use crate::entropy::zstd::fse;

/// The longest code, in bits. RFC 8878 says 11, C zstd accepts 12.
pub const MAX_BITS: u32 = 12;
/// From this head byte on, weights are not compressed.
const DIRECT: u8 = 128;
/// The most values that the weights' tables of 32 and 64 states may have. C
/// zstd has no space for more, and only those up to [`MAX_BITS`] could ever
/// occur.
const MAX_VALUES: [usize; 2] = [92, 12];

/// Weights of the symbols from 0 on.
pub struct Weights {
    all: [u8; 256],
    len: usize,
}

impl Weights {
    /// Reads the description at the start of `bytes`, all but the last weight,
    /// which follows from the others, and returns the bytes after it.
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

    /// Adds the last weight, which makes the code complete. Returns the
    /// weights of all symbols and the length of the longest code in bits.
    pub fn complete(mut self) -> Result<([u8; 256], u32), Fault> {
        // The padding of a direct description.
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
        // The number of longest codes is always even, unless there are none.
        let longest = self.all.iter().filter(|weight| **weight == 1).count();
        if longest < 2 || longest % 2 == 1 {
            return Err(INCOMPLETE);
        }
        Ok((self.all, bits))
    }

    /// Decodes compressed weights with two alternating states; the end of the
    /// stream ends the weights.
    fn decompress(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let mut shares = [0; MAX_VALUES[0]];
        let (log, stream) = shares::read(bytes, &MAX_VALUES, &mut shares)?;
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
                // One more would leave no space for the last weight.
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
