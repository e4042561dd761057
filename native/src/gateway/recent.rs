//! The values that were used last.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

/// The most values that are kept.
const MAX_KEPT: usize = 64;

/// The values used last, each made by one of those who ask for it at the same
/// time.
pub(super) struct Recent<K, V>(Mutex<State<K, V>>);

struct State<K, V> {
    uses: u64,
    kept: HashMap<K, Kept<V>>,
}

struct Kept<V> {
    last_use: u64,
    cell: Arc<OnceCell<V>>,
}

impl<K: Eq + Hash + Clone, V> Recent<K, V> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State {
            uses: 0,
            kept: HashMap::new(),
        }))
    }

    /// Drops a value.
    pub(super) fn forget(&self, key: &K) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.kept.remove(key);
    }

    /// Returns the place of the value of `key`, which may have to be made.
    pub(super) fn cell(&self, key: &K) -> Arc<OnceCell<V>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.uses += 1;
        let last_use = state.uses;
        if !state.kept.contains_key(key) && state.kept.len() >= MAX_KEPT {
            let oldest = state.kept.iter().min_by_key(|(_, kept)| kept.last_use);
            let oldest = oldest.map(|(key, _)| key.clone());
            oldest.and_then(|oldest| state.kept.remove(&oldest));
        }
        let new = || Kept {
            last_use,
            cell: Arc::default(),
        };
        let kept = state.kept.entry(key.clone()).or_insert_with(new);
        kept.last_use = last_use;
        Arc::clone(&kept.cell)
    }
}
