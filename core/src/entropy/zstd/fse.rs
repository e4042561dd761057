//! Tables of finite state entropy for decoding, and the description of a table
//! in a frame, which gives the number of its states for each value (RFC 8878,
//! 4.1).

use alloc::vec::Vec;

use super::decode::Fault;

/// A state of the decoder: its value, and the range of possible next states,
/// which starts at `base` and has `1 << bits` states.
#[derive(Debug, Clone, Copy)]
pub struct FseState {
    pub value: u8,
    pub bits: u32,
    pub base: usize,
}

/// The entry in a distribution that marks a value rarer than one state of the
/// table.
pub(crate) const RARE: i16 = -1;

/// Returns the decoding table of `1 << log` states. `shares` contains the
/// number of states of each value, or [`RARE`] for a value with one state that
/// is followed by a full read of `log` bits.
pub fn states(shares: &[i16], log: u32) -> Vec<FseState> {
    let size = 1usize << log;
    let step = (size >> 1) + (size >> 3) + 3;
    let mut values = alloc::vec![0u8; size];
    let mut free = size;
    for (value, _) in (0..=u8::MAX)
        .zip(shares)
        .filter(|(_, share)| **share == RARE)
    {
        free -= 1;
        values[free] = value;
    }
    let mut at = 0;
    for (value, &share) in (0..=u8::MAX).zip(shares) {
        for _ in 0..share {
            values[at] = value;
            at = (at + step) % size;
            while at >= free {
                at = (at + step) % size;
            }
        }
    }
    let mut seen = [0usize; 256];
    for (seen, share) in seen.iter_mut().zip(shares) {
        *seen = usize::from(share.unsigned_abs());
    }
    values
        .into_iter()
        .map(|value| {
            let number = seen[usize::from(value)];
            seen[usize::from(value)] += 1;
            let bits = log - number.ilog2();
            FseState {
                value,
                bits,
                base: (number << bits) - size,
            }
        })
        .collect()
}

/// Binary logarithm of the smallest table size.
const MIN_LOG: u32 = 5;

/// Parses the description at the start of `bytes` into `shares`. `most_values`
/// contains the maximum number of values for tables of 32 states, 64 states and
/// so on; larger tables are rejected. Returns the binary logarithm of the table
/// size, and the bytes after the description.
pub(crate) fn read_distribution<'a>(
    bytes: &'a [u8],
    most_values: &[usize],
    shares: &mut [i16],
) -> Result<(u32, &'a [u8]), Fault> {
    let mut bits = Forwards { bytes, taken: 0 };
    let size = bits.peek(4);
    bits.taken += 4;
    let &most_values = most_values
        .get(size as usize)
        .ok_or(Fault("a table of finite state entropy is too large"))?;
    let log = MIN_LOG + size;
    let shares = &mut shares[..most_values];
    let mut left = 1u32 << log;
    let mut value = 0;
    while left > 0 {
        // The number is one of left + 2 values. The largest ones take `width`
        // bits, the smallest ones take one bit less.
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
        if bits.taken > 8 * bytes.len() {
            return Err(SHORT);
        }
        let share = shares.get_mut(value).ok_or(SHARES)?;
        value += 1;
        if read == 0 {
            *share = RARE;
            left -= 1;
            continue;
        }
        *share = i16::try_from(read - 1).map_err(|_| SHARES)?;
        left -= read - 1;
        // After a zero, two bits give the number of further zeros.
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

const SHORT: Fault = Fault("a block ends inside a table of finite state entropy");
const SHARES: Fault = Fault("the probabilities do not fill the table");

/// A bit stream that is read from its start.
struct Forwards<'a> {
    bytes: &'a [u8],
    taken: usize,
}

impl Forwards<'_> {
    /// Returns the next `bits` bits, up to 10, with zeros beyond the end.
    fn peek(&self, bits: u32) -> u32 {
        let at = self.taken / 8;
        let byte = |at: usize| u32::from(self.bytes.get(at).copied().unwrap_or(0));
        let word = byte(at) | byte(at + 1) << 8 | byte(at + 2) << 16;
        word >> (self.taken % 8) & ((1 << bits) - 1)
    }
}
