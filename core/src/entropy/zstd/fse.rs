//! Decoding tables of finite state entropy (RFC 8878, 4.1).

use alloc::vec::Vec;

/// A state of the decoder: its value, and the range of possible next states,
/// which starts at `base` and has `1 << bits` states.
#[derive(Debug, Clone, Copy)]
pub struct State {
    pub value: u8,
    pub bits: u32,
    pub base: usize,
}

/// The entry in a distribution that marks a value rarer than one state of the
/// table.
pub const RARE: i16 = -1;

/// Returns the decoding table of `1 << log` states. `shares` contains the
/// number of states of each value, or [`RARE`] for a value with one state that
/// is followed by a full read of `log` bits.
pub fn states(shares: &[i16], log: u32) -> Vec<State> {
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
            State {
                value,
                bits,
                base: (number << bits) - size,
            }
        })
        .collect()
}
