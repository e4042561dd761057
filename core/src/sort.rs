//! Sorting with few instantiations. The standard library's sort is compiled
//! again for every element type; these functions share one copy, which keeps
//! the WebAssembly module for readers small.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// Returns the indices of the items in ascending order of their keys. The sort
/// is stable.
pub fn by_key(keys: impl Iterator<Item = (u64, u64)>) -> Vec<usize> {
    let numbered = keys.enumerate().map(|(number, (a, b))| (a, b, number));
    let mut order: Vec<(u64, u64, usize)> = numbered.collect();
    order.sort_unstable();
    order.into_iter().map(|(_, _, number)| number).collect()
}

/// Sorts the items by key. The sort is stable.
pub fn sorted<T>(items: Vec<T>, key: impl Fn(&T) -> (u64, u64)) -> Vec<T> {
    if items.is_sorted_by_key(&key) {
        return items;
    }
    let order = by_key(items.iter().map(key));
    picked(items, order)
}

/// Returns the items at the given distinct indices, in the order of the
/// indices.
pub(crate) fn picked<T>(items: Vec<T>, numbers: Vec<usize>) -> Vec<T> {
    let mut items: Vec<Option<T>> = items.into_iter().map(Some).collect();
    let taken = numbers.into_iter().map(|number| items[number].take());
    taken.flatten().collect()
}

/// Builds a map from these pairs; the last pair of a repeated key wins. Unlike
/// `collect`, it does not sort the pairs first.
pub fn map<K: Ord, V>(pairs: impl Iterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut map = BTreeMap::new();
    for (key, value) in pairs {
        map.insert(key, value);
    }
    map
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn equal_keys_keep_their_order() {
        let items = vec![(3, 'a'), (1, 'b'), (3, 'c'), (1, 'd')];
        let sorted = sorted(items, |&(key, _)| (key, 0));
        assert_eq!(sorted, [(1, 'b'), (1, 'd'), (3, 'a'), (3, 'c')]);
        assert_eq!(by_key([(1, 2), (1, 1), (0, 9)].into_iter()), [2, 1, 0]);
    }

    #[test]
    fn the_last_of_a_key_counts() {
        let pairs = [("a", 1), ("b", 2), ("a", 3)];
        assert_eq!(map(pairs.into_iter()), BTreeMap::from([("a", 3), ("b", 2)]));
    }
}
