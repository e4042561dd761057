//! A cache of the most recently used values.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

/// Maximum number of cached values.
const MAX_KEPT: usize = 64;

/// A least-recently-used cache. If several callers request a missing value at the same
/// time, one of them computes it.
pub(super) struct Recent<K, V> {
    max_weight: u64,
    state: Mutex<State<K, V>>,
}

struct State<K, V> {
    uses: u64,
    weight: u64,
    kept: HashMap<K, Kept<V>>,
}

struct Kept<V> {
    last_use: u64,
    weight: u64,
    cell: Arc<OnceCell<V>>,
}

impl<K: Eq + Hash + Clone, V> Recent<K, V> {
    /// Creates a cache whose values have a total weight of at most `max_weight`.
    pub(super) fn new(max_weight: u64) -> Self {
        Self {
            max_weight,
            state: Mutex::new(State {
                uses: 0,
                weight: 0,
                kept: HashMap::new(),
            }),
        }
    }

    /// Drops a value.
    pub(super) fn forget(&self, key: &K) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.remove(key);
    }

    /// Sets the weight of a computed value, and drops the least recently used values
    /// until the total is within the limit. A value heavier than the limit is dropped
    /// itself.
    pub(super) fn weigh(&self, key: &K, weight: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(kept) = state.kept.get_mut(key) else {
            return;
        };
        let before = std::mem::replace(&mut kept.weight, weight);
        state.weight = state.weight - before + weight;
        while state.weight > self.max_weight && state.remove_oldest() {}
    }

    /// Returns the cell of the value of `key`, which is empty if the value has to be
    /// computed.
    pub(super) fn cell(&self, key: &K) -> Arc<OnceCell<V>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.uses += 1;
        let last_use = state.uses;
        if !state.kept.contains_key(key) && state.kept.len() >= MAX_KEPT {
            state.remove_oldest();
        }
        let new = || Kept {
            last_use,
            weight: 0,
            cell: Arc::default(),
        };
        let kept = state.kept.entry(key.clone()).or_insert_with(new);
        kept.last_use = last_use;
        Arc::clone(&kept.cell)
    }
}

impl<K: Eq + Hash + Clone, V> State<K, V> {
    fn remove(&mut self, key: &K) -> bool {
        let removed = self.kept.remove(key);
        self.weight -= removed.as_ref().map_or(0, |kept| kept.weight);
        removed.is_some()
    }

    fn remove_oldest(&mut self) -> bool {
        let oldest = self.kept.iter().min_by_key(|(_, kept)| kept.last_use);
        let oldest = oldest.map(|(key, _)| key.clone());
        oldest.is_some_and(|oldest| self.remove(&oldest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heavy_values_drop_the_oldest() {
        let recent = Recent::<u32, u32>::new(100);
        for (key, weight) in [(1, 40), (2, 40), (3, 40), (4, 101)] {
            recent.cell(&key).set(key).unwrap();
            recent.weigh(&key, weight);
            recent.weigh(&key, weight);
            let is_kept = |key: &u32| recent.state.lock().unwrap().kept.contains_key(key);
            let kept: Vec<u32> = (1..=4).filter(is_kept).collect();
            let expected: &[u32] = match key {
                1 => &[1],
                2 => &[1, 2],
                3 => &[2, 3],
                _ => &[],
            };
            assert_eq!(kept, expected);
        }
        assert_eq!(recent.state.lock().unwrap().weight, 0);
    }
}
