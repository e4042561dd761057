//! Divides a block into parts. Parts with different statistics get their own
//! Huffman codes.

use alloc::vec::Vec;
use core::ops::Range;

use super::huffman::Counts;
use crate::bytes::index;
use crate::entropy::histogram::{count, huffman_bits, sum, values};

/// Minimum length of a part in bytes.
const MIN_BYTES: usize = 32 << 10;
/// Average overhead of a part in bytes, apart from its streams: headers, and
/// the head of the code's description.
const HEADS_BYTES: usize = 16;
/// The least gain of a division in bytes, because a reader builds tables for
/// each part.
const CUT_BYTES: usize = 48;

/// A part of a block, which is encoded as a block of its own.
pub struct BlockPart {
    pub range: Range<usize>,
    pub counts: Counts,
}

impl BlockPart {
    /// Merges this part with the next one.
    fn with(&self, next: &Self) -> Self {
        Self {
            range: self.range.start..next.range.end,
            counts: sum(&[self.counts, next.counts]),
        }
    }

    fn cost_bytes(&self) -> usize {
        // The code of a value takes half a byte in the description.
        let heads_bytes = HEADS_BYTES + values(&self.counts) / 2;
        heads_bytes + index(huffman_bits(&self.counts) / 8)
    }

    /// Returns whether two parts are so similar that separate codes would gain
    /// less than the headers of another part cost.
    ///
    /// For parts of equal length, the sum computed here is an upper bound in
    /// bits for the gain at their entropy. If the parts differ by chance only,
    /// it is about 1 for each value (Topsøe 2000, on the Jensen-Shannon
    /// divergence).
    fn is_like(&self, other: &Self) -> bool {
        let differences = self.counts.iter().zip(&other.counts);
        let bits = differences.map(|(&a, &b)| a.abs_diff(b).pow(2) / (a + b).max(1));
        self.range.len() == other.range.len()
            && bits.sum::<u64>() <= 8 * (HEADS_BYTES + CUT_BYTES) as u64
    }
}

/// Consecutive parts.
type Run = Vec<BlockPart>;

/// Concatenates both runs, or merges them if they are two parts that cost no
/// more as one.
fn followed_by(mut run: Run, next: Run) -> Run {
    if let ([one], [two]) = (&run[..], &next[..]) {
        let whole = one.with(two);
        let as_they_are = || one.cost_bytes() + two.cost_bytes() + CUT_BYTES;
        if one.is_like(two) || whole.cost_bytes() <= as_they_are() {
            return [whole].into();
        }
    }
    run.extend(next);
    run
}

/// Returns the parts of `block`: halves and quarters, or a single part.
pub fn cut(block: &[u8]) -> Vec<BlockPart> {
    let starts = (0..block.len()).step_by(MIN_BYTES);
    let mut runs: Vec<Run> = starts
        .map(|start| {
            let range = start..block.len().min(start + MIN_BYTES);
            let counts = count(&block[range.clone()]);
            [BlockPart { range, counts }].into()
        })
        .collect();
    while runs.len() > 1 {
        let mut pairs = runs.into_iter();
        let mut next = Vec::new();
        while let Some(one) = pairs.next() {
            next.push(match pairs.next() {
                Some(two) => followed_by(one, two),
                None => one,
            });
        }
        runs = next;
    }
    runs.pop().unwrap_or_default()
}
