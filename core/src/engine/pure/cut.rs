//! Where a block is cut: parts that are unlike get Huffman codes of their own.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::huffman::Counts;
use crate::bytes::index;
use crate::entropy::order0::{count, huffman_bits, sum, values};

/// Shortest part.
const LEAST_BYTES: usize = 32 << 10;
/// What a part has besides its streams: headers, and the head of the
/// description of its code.
const HEADS_BYTES: usize = 16;
/// What a cut has to gain: a reader makes tables for each part.
const CUT_BYTES: usize = 48;

/// A part of a block.
pub struct Part {
    pub place: Range<usize>,
    pub counts: Counts,
}

/// Parts side by side, and about what they come to.
struct Run {
    parts: Vec<Part>,
    cost_bytes: usize,
}

impl Run {
    fn of(place: Range<usize>, counts: Counts) -> Self {
        // Half a byte describes the code of a value.
        let heads_bytes = HEADS_BYTES + values(&counts) / 2;
        Self {
            cost_bytes: heads_bytes + index(huffman_bits(&counts) / 8),
            parts: vec![Part { place, counts }],
        }
    }

    /// Both, as one part if that costs no more.
    fn followed_by(mut self, mut other: Self) -> Self {
        if let ([one], [two]) = (&self.parts[..], &other.parts[..]) {
            let counts = sum(&[one.counts, two.counts]);
            let whole = Self::of(one.place.start..two.place.end, counts);
            if whole.cost_bytes <= self.cost_bytes + other.cost_bytes + CUT_BYTES {
                return whole;
            }
        }
        self.parts.append(&mut other.parts);
        self.cost_bytes += other.cost_bytes;
        self
    }
}

/// The parts of `block`: halves and quarters, or all of it.
pub fn cut(block: &[u8]) -> Vec<Part> {
    let places = (0..block.len()).step_by(LEAST_BYTES);
    let mut runs: Vec<Run> = places
        .map(|start| start..block.len().min(start + LEAST_BYTES))
        .map(|place| Run::of(place.clone(), count(&block[place])))
        .collect();
    while runs.len() > 1 {
        let mut pairs = runs.into_iter();
        let mut next = Vec::new();
        while let Some(one) = pairs.next() {
            next.push(match pairs.next() {
                Some(two) => one.followed_by(two),
                None => one,
            });
        }
        runs = next;
    }
    runs.pop().map(|run| run.parts).unwrap_or_default()
}
