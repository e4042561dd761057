//! Chooses the intervals: halves of halves of all integers, as short as their numbers of
//! elements justify.

use alloc::vec;
use alloc::vec::Vec;

use super::{JOB_ELEMENTS, Numbers, add, counting_elements};
use crate::engine::PackEngine;
use crate::entropy::interleaved::{FRACTION_BITS, SLOT_BITS, log2};
use crate::frame::intervals::head::{Interval, MAX_INTERVALS};

/// Zero gets its own interval if at least one in this many elements is zero.
const MIN_ZEROS: usize = 256;
/// The price of an interval in each table, and in the list, in bits.
const TABLE_PRICE: u64 = 9;
const LIST_PRICE: u64 = 5;
/// The expected number of tables: one per this many elements, up to a maximum.
const TABLE_ELEMENTS: u64 = 1 << 15;
const MAX_TABLES: u64 = 12;

/// The intervals of a tensor.
#[derive(Debug)]
pub(super) struct Partition {
    pub intervals: Vec<Interval>,
    /// The number of raw bits of all elements.
    pub raw_bits: u64,
    /// The interval of every key, or the last one of those that the key has.
    symbol_of_key: Vec<u8>,
    /// The number of low bits of an integer that do not belong to its key.
    below_bits: u32,
    /// True if the integers whose key is 0 have several intervals.
    divides_zero: bool,
}

impl Partition {
    /// Chooses the intervals of the elements. Returns `None` if there would be only one.
    pub fn new<E: PackEngine>(engine: &E, numbers: Numbers) -> Option<Self> {
        let below_bits = numbers.width_bits() - numbers.key_bits();
        let (counts, zeros) = count(engine, numbers);
        let divides_zero = below_bits > 0 && zeros > 0 && zeros >= numbers.len() / MIN_ZEROS;
        // Zero, 1, 2 and 3, 4 to 7 and so on: one interval more than there are bits.
        let more = if divides_zero { below_bits as usize } else { 0 };
        let total = numbers.len() as u64;
        let tables = (total / TABLE_ELEMENTS).clamp(1, MAX_TABLES);
        let mut tree = Tree {
            sums: sums(&counts),
            log_total: log2(total),
            below_bits,
            price: (LIST_PRICE + TABLE_PRICE * tables) << FRACTION_BITS,
            divides_zero,
        };
        let lengths = loop {
            let mut lengths = Vec::new();
            tree.divide(0, numbers.key_bits(), &mut lengths);
            if lengths.len() + more <= MAX_INTERVALS {
                break lengths;
            }
            tree.price *= 2;
        };
        let mut intervals = Vec::new();
        let mut symbol_of_key = Vec::with_capacity(counts.len());
        let mut raw_bits = 0;
        let mut start = 0;
        for length_log in lengths {
            let in_key = match divides_zero && start == 0 {
                true => 0..=below_bits,
                false => length_log + below_bits + 1..=length_log + below_bits + 1,
            };
            for end_log in in_key {
                let length_log = end_log.saturating_sub(1);
                intervals.push(Interval {
                    start: u32::try_from(start).ok()?,
                    length_log: u8::try_from(length_log).ok()?,
                });
                start += 1u64 << length_log;
            }
            let symbol = u8::try_from(intervals.len() - 1).ok()?;
            let keys = symbol_of_key.len()..symbol_of_key.len() + (1 << length_log);
            let elements: u64 = counts[keys.clone()].iter().map(|&n| u64::from(n)).sum();
            raw_bits += elements * u64::from(length_log + below_bits);
            symbol_of_key.resize(keys.end, symbol);
        }
        if divides_zero {
            raw_bits -= zeros as u64 * u64::from(below_bits);
        }
        // Intervals after the last element are not needed.
        let last = counts.iter().rposition(|&count| count > 0)?;
        intervals.truncate(usize::from(symbol_of_key[last]) + 1);
        (intervals.len() > 1).then_some(Self {
            intervals,
            raw_bits,
            symbol_of_key,
            below_bits,
            divides_zero,
        })
    }

    /// Returns the interval of every element.
    pub fn symbols<E: PackEngine>(&self, engine: &E, numbers: Numbers) -> Vec<u8> {
        let mut symbols = vec![0; numbers.len()];
        let jobs = numbers.jobs(JOB_ELEMENTS).into_iter();
        let jobs = jobs.zip(symbols.chunks_mut(JOB_ELEMENTS)).collect();
        engine.map(jobs, |(range, symbols)| {
            let first = range.start;
            numbers.each_keys(range.clone(), |start, keys| {
                let symbols = symbols[start - first..].iter_mut();
                for (symbol, &key) in symbols.zip(keys) {
                    *symbol = self.symbol_of_key[usize::from(key)];
                }
            });
            if self.divides_zero {
                let mut symbols = symbols.iter_mut();
                numbers.each(range, |number| {
                    if let (Some(symbol), 0) = (symbols.next(), number >> self.below_bits) {
                        let end_log = number.checked_ilog2().map_or(0, |log| log + 1);
                        *symbol = end_log.to_le_bytes()[0];
                    }
                });
            }
        });
        symbols
    }
}

/// Returns how many elements have each key, and how many elements are zero.
fn count<E: PackEngine>(engine: &E, numbers: Numbers) -> (Vec<u32>, usize) {
    let len = 1 << numbers.key_bits();
    let jobs = numbers.jobs(counting_elements(numbers.len(), 1));
    let all = engine.map(jobs, |range| {
        // Counting neighbours apart avoids waiting for a count that was just stored.
        let mut even = vec![0u32; len];
        let mut odd = vec![0u32; len];
        numbers.each_keys(range.clone(), |_, keys| {
            let (pairs, rest) = keys.as_chunks();
            for &[first, second] in pairs {
                even[usize::from(first)] += 1;
                odd[usize::from(second)] += 1;
            }
            rest.iter().for_each(|&key| even[usize::from(key)] += 1);
        });
        add(&mut even, &odd);
        let mut zeros = 0;
        if even[0] > 0 {
            numbers.each(range, |number| zeros += usize::from(number == 0));
        }
        (even, zeros)
    });
    let mut all = all.into_iter();
    let mut sum = all.next().unwrap_or_default();
    for (counts, zeros) in all {
        add(&mut sum.0, &counts);
        sum.1 += zeros;
    }
    sum
}

/// Returns the number of elements before every key, and their total.
fn sums(counts: &[u32]) -> Vec<u64> {
    let mut sum = 0;
    let mut sums = vec![0];
    sums.extend(counts.iter().map(|&count| {
        sum += u64::from(count);
        sum
    }));
    sums
}

/// The keys as a binary tree, whose leaves become intervals.
struct Tree {
    sums: Vec<u64>,
    log_total: u64,
    below_bits: u32,
    /// The price of an interval. The unit of all costs is `2^-FRACTION_BITS` bits.
    price: u64,
    /// True if key 0 has to become a leaf.
    divides_zero: bool,
}

impl Tree {
    /// Appends the base-2 logarithms of the lengths of the intervals of `2^log` keys, and
    /// returns their cost.
    fn divide(&self, first: usize, log: u32, out: &mut Vec<u32>) -> u64 {
        let count = self.sums[first + (1 << log)] - self.sums[first];
        let symbol = (self.log_total - log2(count)).min(u64::from(SLOT_BITS) << FRACTION_BITS);
        let raw = u64::from(log + self.below_bits) << FRACTION_BITS;
        let whole = count * (symbol + raw) + self.price;
        let must = self.divides_zero && first == 0;
        // Dividing saves at most one bit of each element and level.
        let may = (count * u64::from(log)) << FRACTION_BITS > self.price;
        let before = out.len();
        if log > 0 && (must || may) {
            let middle = first + (1 << (log - 1));
            let parts = self.divide(first, log - 1, out) + self.divide(middle, log - 1, out);
            if must || parts < whole {
                return parts;
            }
        }
        out.truncate(before);
        out.push(log);
        whole
    }
}
