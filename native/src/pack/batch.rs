//! Divides a checkpoint into batches that fit into the allowed memory.

use std::ops::Range;

/// Consecutive tensors that are processed at the same time.
#[derive(Debug, PartialEq, Eq)]
pub struct Batch {
    /// The numbers of the tensors.
    pub tensors: Range<usize>,
    /// True for a single tensor that does not fit into memory and is coded block by
    /// block.
    pub large: bool,
}

/// The minimum size of a batch, in bytes: enough small tensors to keep all threads
/// busy.
const MIN_BYTES: u64 = 8 << 20;
/// The maximum number of tensors in a batch: enough to keep all threads busy, however
/// small they are.
const MAX_TENSORS: usize = 512;

/// Returns the size of a batch for tensors of these lengths, in bytes: one tensor for
/// every thread, or many small ones, but at most `max_bytes`. Larger batches would take
/// more memory without being faster.
pub fn enough_bytes(lens_bytes: &[u64], threads: usize, max_bytes: u64) -> u64 {
    let largest = lens_bytes.iter().copied().max().unwrap_or(0);
    let one_each = largest.saturating_mul(threads as u64);
    one_each.max(MIN_BYTES).min(max_bytes)
}

/// Divides tensors of these lengths into batches. Aliases take no memory.
pub fn cut(lens_bytes: &[u64], aliases: &[Option<usize>], batch_bytes: u64) -> Vec<Batch> {
    let mut batches = Vec::new();
    let mut start = 0;
    let mut held = 0;
    for (number, &len) in lens_bytes.iter().enumerate() {
        let cost = if aliases[number].is_some() { 0 } else { len };
        let large = cost > batch_bytes;
        let is_full = held + cost > batch_bytes || number - start == MAX_TENSORS;
        if (large || is_full) && start < number {
            batches.push(Batch {
                tensors: start..number,
                large: false,
            });
            start = number;
            held = 0;
        }
        held += cost;
        if large {
            batches.push(Batch {
                tensors: number..number + 1,
                large: true,
            });
            start = number + 1;
            held = 0;
        }
    }
    if start < lens_bytes.len() {
        batches.push(Batch {
            tensors: start..lens_bytes.len(),
            large: false,
        });
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tensor_is_in_one_batch_and_large_ones_stand_alone() {
        let lens = [5, 5, 30, 1, 9, 40, 2, 0, 100];
        let mut aliases = vec![None; lens.len()];
        aliases[5] = Some(2);
        let batches = cut(&lens, &aliases, 12);
        let numbers: Vec<usize> = batches.iter().flat_map(|b| b.tensors.clone()).collect();
        assert_eq!(numbers, (0..lens.len()).collect::<Vec<_>>());
        let large: Vec<usize> = batches
            .iter()
            .filter(|b| b.large)
            .map(|b| b.tensors.start)
            .collect();
        assert_eq!(large, [2, 8]);
        for batch in &batches {
            let cost: u64 = batch
                .tensors
                .clone()
                .filter(|&t| aliases[t].is_none())
                .map(|t| lens[t])
                .sum();
            assert!(batch.large || cost <= 12, "{batch:?}");
        }
    }

    #[test]
    fn a_batch_has_a_tensor_for_every_thread_if_they_fit() {
        assert_eq!(enough_bytes(&[1 << 20, 30 << 20], 2, 1 << 30), 60 << 20);
        assert_eq!(enough_bytes(&[1 << 20, 30 << 20], 2, 20 << 20), 20 << 20);
        assert_eq!(enough_bytes(&[4096; 9], 2, 1 << 30), MIN_BYTES);
        assert_eq!(enough_bytes(&[], 2, 1 << 30), MIN_BYTES);
    }

    #[test]
    fn many_small_tensors_are_several_batches() {
        let batches = cut(&[1; 1300], &[None; 1300], 1 << 20);
        let counts: Vec<usize> = batches.iter().map(|batch| batch.tensors.len()).collect();
        assert_eq!(counts, [512, 512, 276]);
    }

    #[test]
    fn nothing_makes_no_batches() {
        assert!(cut(&[], &[], 100).is_empty());
    }
}
