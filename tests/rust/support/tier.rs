//! The two tiers of tests. `cargo xtask test --all` sets `$ZSTN_TESTS` and runs the
//! complete fault tables; otherwise a sample of them runs.

use std::collections::HashSet;
use std::hash::Hash;
use std::ops::Range;

use crate::rng::Rng;

/// Returns whether complete tables are to be run.
#[must_use]
pub fn is_all() -> bool {
    std::env::var("ZSTN_TESTS").is_ok_and(|tier| tier == "all")
}

/// Returns the items to test in this tier: all of them, or a sample that contains every
/// value of every key. `keys` returns the keys of an item, such as its fault and its
/// command. The sample is the same in every run.
#[must_use]
pub fn chosen<T, K: Hash + Eq>(mut items: Vec<T>, keys: impl Fn(&T) -> Vec<K>) -> Vec<T> {
    if is_all() {
        return items;
    }
    // The items are shuffled: in table order, the sample would combine the first fault
    // with every command, and every other fault only with the first command.
    let mut rng = Rng(34);
    for end in (1..items.len()).rev() {
        let pick = rng.next_u64() % (end as u64 + 1);
        items.swap(end, usize::try_from(pick).expect("an index"));
    }
    let mut seen = HashSet::new();
    items.retain(|item| {
        let known = seen.len();
        seen.extend(keys(item).into_iter().enumerate());
        seen.len() > known
    });
    items
}

/// Returns every number in `range` in the full tier, otherwise every `step`th one. An
/// odd `step` covers every bit position of a byte.
pub fn stepped(range: Range<usize>, step: usize) -> impl Iterator<Item = usize> {
    range.step_by(if is_all() { 1 } else { step })
}

/// Returns `many` in the full tier, otherwise `few`.
#[must_use]
pub fn count(few: usize, many: usize) -> usize {
    if is_all() { many } else { few }
}

#[cfg(test)]
mod tests {
    use super::chosen;

    #[test]
    fn every_key_occurs_in_a_sample() {
        if super::is_all() {
            return;
        }
        let pairs: Vec<(u8, u8)> = (0..10).flat_map(|a| (0..5).map(move |b| (a, b))).collect();
        let sample = chosen(pairs, |(a, b)| vec![*a, *b]);
        assert!(sample.len() < 20, "{sample:?}");
        assert!((0..10).all(|a| sample.iter().any(|pair| pair.0 == a)));
        assert!((0..5).all(|b| sample.iter().any(|pair| pair.1 == b)));
    }
}
