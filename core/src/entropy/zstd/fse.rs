//! Decoding tables of finite state entropy (RFC 8878, 4.1).

use alloc::vec::Vec;

/// A state of the decoder: its value, and the states that may follow, from
/// `base` on, as many as `bits` bits can distinguish.
#[derive(Debug, Clone, Copy)]
pub struct State {
    pub value: u8,
    pub bits: u32,
    pub base: usize,
}

/// The share of a value that is rarer than one state in the whole table.
pub const RARE: i16 = -1;

/// Returns the table of `1 << log` states, which `shares` fill: the states of
/// each value, [`RARE`] for one that takes a whole read of `log` bits.
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
