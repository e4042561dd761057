//! Things in the order of where they lie. One sort for all of them: a generic
//! one for each kind of thing weighs more in WebAssembly than what reads it.

use alloc::vec::Vec;

/// `items` in the order of their `place`, equal ones as they came.
pub(crate) fn by_place<T>(items: Vec<T>, place: impl Fn(&T) -> (u64, u64)) -> Vec<T> {
    let mut order: Vec<(u64, u64, usize)> = items
        .iter()
        .enumerate()
        .map(|(number, item)| {
            let (first, then) = place(item);
            (first, then, number)
        })
        .collect();
    order.sort_unstable();
    let mut items: Vec<Option<T>> = items.into_iter().map(Some).collect();
    let sorted = order.into_iter();
    sorted
        .filter_map(|(_, _, number)| items[number].take())
        .collect()
}
