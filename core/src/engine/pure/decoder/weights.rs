//! The description of a Huffman code: weights of symbols (RFC 8878, 4.2.1).

use super::Fault;
use super::streams::Backwards;
use crate::engine::pure::fse::{self, RARE};

/// Longest code, in bits. RFC 8878 says 11, C zstd takes 12.
pub const MOST_BITS: u32 = 12;
/// From this head byte on, weights are not compressed.
const DIRECT: u8 = 128;
/// Sizes of the table that weights may be compressed with, as powers of two,
/// and how many values it may have: C zstd has no room for more, of which only
/// those up to [`MOST_BITS`] could ever occur.
const TABLES: [(u32, usize); 2] = [(5, 92), (6, 12)];
/// Most values of any of them.
const MOST_VALUES: usize = 92;

/// Weights of the symbols from 0 on.
pub struct Weights {
    all: [u8; 256],
    len: usize,
}

impl Weights {
    /// Reads the description at the start of `bytes`, all but the last
    /// weight, which follows from them; returns what stands behind it.
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
        // What a direct description is padded with.
        self.all[self.len..].fill(0);
        let mut sum = 0u32;
        for &weight in &self.all[..self.len] {
            if u32::from(weight) > MOST_BITS {
                return Err(Fault("a weight of a Huffman code is too large"));
            }
            sum += 1 << weight >> 1;
        }
        let bits = sum.checked_ilog2().ok_or(INCOMPLETE)? + 1;
        let rest = (1 << bits) - sum;
        if bits > MOST_BITS || !rest.is_power_of_two() {
            return Err(INCOMPLETE);
        }
        self.push(rest.ilog2().to_le_bytes()[0] + 1)?;
        // Of the longest codes there is an even number, which follows but where
        // there are none.
        let longest = self.all.iter().filter(|weight| **weight == 1).count();
        if longest < 2 || longest % 2 == 1 {
            return Err(INCOMPLETE);
        }
        Ok((self.all, bits))
    }

    /// Two states by turns; the end of the stream ends the weights.
    fn decompress(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let mut shares = [0; MOST_VALUES];
        let (log, stream) = read_shares(bytes, &mut shares)?;
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
                // One more would leave no room for the last weight.
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
const SHARES: Fault = Fault("the shares of weights do not make a table");

/// Reads a table description (4.1.1) into `shares`; returns the size of the
/// table as a power of two, and what stands behind the description.
fn read_shares<'a>(
    bytes: &'a [u8],
    shares: &mut [i16; MOST_VALUES],
) -> Result<(u32, &'a [u8]), Fault> {
    let mut bits = Forwards { bytes, taken: 0 };
    let head = bits.peek(4) as usize;
    bits.taken += 4;
    let &(log, most_values) = TABLES
        .get(head)
        .ok_or(Fault("the table of weights is too large"))?;
    let shares = &mut shares[..most_values];
    let mut left = 1u32 << log;
    let mut value = 0;
    while left > 0 {
        // One of left + 2 values. The width is that of the largest; the
        // smallest values need a bit less.
        let width = u32::BITS - (left + 1).leading_zeros();
        let short = (1 << width) - 1 - (left + 1);
        let half = 1 << (width - 1);
        let low = bits.peek(width - 1);
        let read = if low < short {
            bits.taken += width as usize - 1;
            low
        } else {
            let read = bits.peek(width);
            bits.taken += width as usize;
            if read < half { read } else { read - short }
        };
        let share = shares.get_mut(value).ok_or(SHARES)?;
        value += 1;
        if read == 0 {
            *share = RARE;
            left -= 1;
            continue;
        }
        *share = i16::try_from(read - 1).map_err(|_| SHARES)?;
        left -= read - 1;
        // After a zero, two bits tell how many more follow.
        let mut more = if read == 1 { 3 } else { 0 };
        while more == 3 {
            more = bits.peek(2);
            bits.taken += 2;
            value += more as usize;
            if value > shares.len() {
                return Err(SHARES);
            }
        }
    }
    let rest = bytes.get(bits.taken.div_ceil(8)..).ok_or(SHORT)?;
    Ok((log, rest))
}

/// A stream read from its start.
struct Forwards<'a> {
    bytes: &'a [u8],
    taken: usize,
}

impl Forwards<'_> {
    /// The next bits, up to 8; zeros beyond the end.
    fn peek(&self, bits: u32) -> u32 {
        let at = self.taken / 8;
        let byte = |at: usize| u32::from(self.bytes.get(at).copied().unwrap_or(0));
        let word = byte(at) | byte(at + 1) << 8;
        word >> (self.taken % 8) & ((1 << bits) - 1)
    }
}
