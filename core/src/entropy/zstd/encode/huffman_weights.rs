//! The description of a Huffman code: the weights of its symbols (RFC 8878,
//! 4.2.1), with four bits each or coded by FSE (4.1).

use alloc::vec::Vec;

use crate::entropy::bits::BitWriter;
use crate::entropy::zstd::fse::{self, FseState};

/// Maximum number of weights that can be written with four bits each.
const MAX_DIRECT: usize = 128;
/// Maximum length of an FSE description in bytes. The byte that states the
/// length is below 128.
const MAX_FSE_BYTES: usize = 127;
/// Number of different weights, which are 0 to 11.
const VALUES: usize = 12;
/// The binary logarithms of the table sizes that are tried. Decoders accept no
/// larger tables.
const TABLE_LOGS: [u32; 2] = [5, 6];

/// Returns the shortest description, or `None` if the weights can be described
/// neither directly nor by FSE.
pub fn describe(weights: &[u8]) -> Option<Vec<u8>> {
    let fse = TABLE_LOGS.map(|log| by_fse(weights, log));
    fse.into_iter()
        .chain([direct(weights)])
        .flatten()
        .min_by_key(Vec::len)
}

fn direct(weights: &[u8]) -> Option<Vec<u8>> {
    if weights.is_empty() || weights.len() > MAX_DIRECT {
        return None;
    }
    let head = u8::try_from(127 + weights.len()).ok()?;
    let pairs = weights
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair.get(1).unwrap_or(&0));
    Some([head].into_iter().chain(pairs).collect())
}

fn by_fse(weights: &[u8], log: u32) -> Option<Vec<u8>> {
    let mut counts = [0; VALUES];
    for &weight in weights {
        counts[usize::from(weight)] += 1;
    }
    // A table of a single value would take no bits, so a reader could not find
    // the end. With another value that never occurs, it takes hardly any.
    if let Some(only) = counts.iter().position(|&count| count == weights.len()) {
        counts[only] = 1 << log;
        counts[if only == 1 { 2 } else { 1 }] = 1;
    }
    let shares = shares(&counts, 1 << log);
    // A placeholder for the length, which is filled in below.
    let mut out = [0].to_vec();
    write_shares(&shares, log, &mut out);
    // Each share is at most 64.
    let signed = shares.map(|share| i16::try_from(share).unwrap_or(i16::MAX));
    encode(weights, &fse::states(&signed, log), log, &mut out);
    let len = out.len() - 1;
    if len > MAX_FSE_BYTES {
        return None;
    }
    out[0] = u8::try_from(len).ok()?;
    Some(out)
}

/// Scales counts so that they sum to `size`, with at least one for each value
/// that occurs.
fn shares(counts: &[usize; VALUES], size: usize) -> [usize; VALUES] {
    let total: usize = counts.iter().sum();
    let mut shares = counts.map(|count| match count {
        0 => 0,
        _ => ((count * size + total / 2) / total).max(1),
    });
    // The surplus or deficit from rounding is assigned to the largest share,
    // where it costs least.
    while shares.iter().sum::<usize>() != size {
        let over = shares.iter().sum::<usize>() > size;
        if let Some(largest) = shares.iter_mut().max() {
            *largest = if over { *largest - 1 } else { *largest + 1 };
        }
    }
    shares
}

/// Writes the description of the table (4.1.1).
fn write_shares(shares: &[usize; VALUES], log: u32, out: &mut Vec<u8>) {
    let mut bits = BitWriter::new(out);
    bits.put(u64::from(log - 5), 4);
    let mut left = 1usize << log;
    let mut zeros = None;
    for &share in shares {
        if left == 0 {
            break;
        }
        // After a zero, two bits give the number of further zeros.
        match (&mut zeros, share) {
            (Some(more), 0) => {
                *more += 1;
                continue;
            }
            (Some(more), _) => {
                for _ in 0..*more / 3 {
                    bits.put(3, 2);
                }
                bits.put(*more % 3, 2);
            }
            (None, _) => {}
        }
        zeros = (share == 0).then_some(0u64);
        // The number is one of left + 2 values. The largest ones take `width`
        // bits, the smallest ones take one bit less.
        let value = share + 1;
        let width = usize::BITS - (left + 1).leading_zeros();
        let short = (1 << width) - 1 - (left + 1);
        let half = 1 << (width - 1);
        if value < short {
            bits.put(value as u64, width - 1);
        } else if value < half {
            bits.put(value as u64, width);
        } else {
            bits.put((value + short) as u64, width);
        }
        left -= share;
    }
    bits.finish();
}

/// Encodes with two alternating states, from the last weight to the first
/// (4.2.1.2).
fn encode(weights: &[u8], states: &[FseState], log: u32, out: &mut Vec<u8>) {
    // For each value, every next state follows from exactly one state of the
    // value.
    let mut leading = [[0u8; 1 << TABLE_LOGS[1]]; VALUES];
    let mut first = [None; VALUES];
    for (number, state) in (0u8..).zip(states) {
        let value = usize::from(state.value);
        first[value].get_or_insert(number);
        leading[value][state.base..state.base + (1 << state.bits)].fill(number);
    }
    let mut bits = BitWriter::new(out);
    let mut current: [Option<u8>; 2] = [None; 2];
    for (index, &weight) in weights.iter().enumerate().rev() {
        let state = &mut current[index % 2];
        let value = usize::from(weight);
        *state = match *state {
            // The first state of a value reads at least one bit. By then no
            // bits are left, which is how a reader detects the end.
            None => first[value],
            Some(next) => {
                let next = usize::from(next);
                let number = leading[value][next];
                let state = &states[usize::from(number)];
                bits.put((next - state.base) as u64, state.bits);
                Some(number)
            }
        };
    }
    for state in current.into_iter().rev().flatten() {
        bits.put(state.into(), log);
    }
    bits.finish_marked();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_fill_the_table() {
        for counts in [
            [1, 254, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
            [1; VALUES],
            [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 245],
        ] {
            for log in TABLE_LOGS {
                let shares = shares(&counts, 1 << log);
                assert_eq!(shares.iter().sum::<usize>(), 1 << log);
                for (share, count) in shares.iter().zip(counts) {
                    assert_eq!(*share == 0, count == 0);
                }
            }
        }
    }

    #[test]
    fn equal_weights_take_next_to_nothing() {
        assert_eq!(describe(&[1, 1, 1]).unwrap(), [130, 0x11, 0x10]);
        assert!(describe(&[1; 127]).unwrap().len() < 10);
        assert!(describe(&[1; 255]).unwrap().len() < 10);
    }

    #[test]
    fn many_weights_take_the_shorter_form() {
        let mut weights = alloc::vec![0u8; 200];
        weights[150] = 3;
        weights[199] = 1;
        assert!(describe(&weights).unwrap().len() < 20);
    }
}
