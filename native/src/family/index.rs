//! Finds the most similar checkpoints among many by their signatures.

use std::cmp::Reverse;
use std::collections::HashMap;

use zstn_core::sketch::Signature;

/// Numbers of checkpoints by the hashes in their signatures. It takes 16 bytes for each
/// hash.
#[derive(Debug, Default)]
pub(super) struct SignatureIndex {
    /// Sorted lists, each more than twice as long as the next one. A few long lists are
    /// searched quickly, and adding an entry seldom changes them.
    lists: Vec<Vec<(u64, u32)>>,
}

impl SignatureIndex {
    /// Adds a checkpoint.
    pub(super) fn add(&mut self, number: u32, signature: &Signature) {
        let hashes = signature.hashes().iter();
        let mut list: Vec<_> = hashes.map(|hash| (*hash, number)).collect();
        while let Some(longer) = self.lists.pop_if(|last| last.len() <= 2 * list.len()) {
            list.extend(longer);
            // The sort is stable and merges runs that are already sorted.
            list.sort();
        }
        self.lists.push(list);
    }

    /// Returns at most `count` checkpoints that share hashes with `signature`: those with
    /// the most come first, and of equals the one with the smaller number.
    pub(super) fn nearest(&self, signature: &Signature, count: usize) -> Vec<u32> {
        let mut shared: HashMap<u32, u32> = HashMap::new();
        for list in &self.lists {
            for hash in signature.hashes() {
                let start = list.partition_point(|(other, _)| other < hash);
                let same = list[start..].iter().take_while(|(other, _)| other == hash);
                for (_, number) in same {
                    *shared.entry(*number).or_default() += 1;
                }
            }
        }
        let mut ranked: Vec<(Reverse<u32>, u32)> = shared
            .into_iter()
            .map(|(number, shared)| (Reverse(shared), number))
            .collect();
        ranked.sort_unstable();
        ranked.truncate(count);
        ranked.into_iter().map(|(_, number)| number).collect()
    }
}
