//! Palettes: a codebook of the distinct elements, and an index into it for each
//! element (docs/formats/z4ai-frames.md 10).
//!
//! All functions with a `width` panic if it is not 1, 2, 4 or 8, or if it does
//! not divide the length of the elements.
//!
//! A palette of at most 256 values is built in one pass: each element is looked
//! up in a directly indexed table and numbered immediately. Larger palettes are
//! built with a hash table.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::by_width;
use crate::{Error, Result, Rule};

/// Splits `elements` into a codebook and an index. The codebook holds the
/// distinct elements as unsigned integers in ascending order. The index holds
/// the position of every element in the codebook, with [`index_bytes`] bytes
/// each. Returns `None` as soon as there are more than `most` distinct
/// elements.
#[must_use]
pub fn split(elements: &[u8], width: usize, most: usize) -> Option<(Vec<u64>, Vec<u8>)> {
    by_width!(width, split_fixed(elements, most))
}

fn split_fixed<const W: usize>(elements: &[u8], most: usize) -> Option<(Vec<u64>, Vec<u8>)> {
    let (items, rest) = elements.as_chunks::<W>();
    assert!(rest.is_empty());
    if most <= MAX_VALUES {
        match split_small(items, most) {
            SmallPalette::Split(codebook, index) => return Some((codebook, index)),
            SmallPalette::TooMany => return None,
            SmallPalette::Collide => {}
        }
    }
    split_hashed(items, most)
}

/// Returns the number of bytes per position of an index into a codebook of
/// `entries` entries.
#[must_use]
pub fn index_bytes(entries: usize) -> usize {
    match entries {
        0..=256 => 1,
        257..=65_536 => 2,
        _ => 4,
    }
}

/// Looks up every position of `index` in `codebook`. Both have the format that
/// a frame stores.
///
/// # Panics
/// If the length of `out` does not match the index, or if `index_bytes` is not
/// 1, 2 or 4; frame parsers have checked both.
pub fn join(
    index: &[u8],
    index_bytes: usize,
    codebook: &[u8],
    width: usize,
    out: &mut [u8],
) -> Result<()> {
    assert_eq!(index.len() / index_bytes, out.len() / width);
    by_width!(width, join_fixed(index, index_bytes, codebook, out))
}

fn join_fixed<const W: usize>(
    index: &[u8],
    index_bytes: usize,
    codebook: &[u8],
    out: &mut [u8],
) -> Result<()> {
    let entries = codebook.as_chunks::<W>().0;
    let items = out.as_chunks_mut::<W>().0;
    match index_bytes {
        1 => {
            // A table of 256 entries makes bounds checks per element
            // unnecessary.
            let mut table = [[0; W]; 256];
            for (to, entry) in table.iter_mut().zip(entries) {
                *to = *entry;
            }
            // `Iterator::max` would not be compiled to vector instructions.
            let most = index
                .iter()
                .fold(0, |most: u8, &position| most.max(position));
            if usize::from(most) >= entries.len() && !index.is_empty() {
                return Err(outside(most.into(), entries.len()));
            }
            for (item, &position) in items.iter_mut().zip(index) {
                *item = table[usize::from(position)];
            }
            Ok(())
        }
        2 => {
            let positions = index.as_chunks::<2>().0.iter();
            look_up(
                positions.map(|&p| u16::from_le_bytes(p).into()),
                entries,
                items,
            )
        }
        4 => {
            let positions = index.as_chunks::<4>().0.iter();
            look_up(positions.map(|&p| u32::from_le_bytes(p)), entries, items)
        }
        other => panic!("indices of {other} bytes"),
    }
}

fn look_up<const W: usize>(
    positions: impl Iterator<Item = u32>,
    entries: &[[u8; W]],
    items: &mut [[u8; W]],
) -> Result<()> {
    for (item, position) in items.iter_mut().zip(positions) {
        *item = usize::try_from(position)
            .ok()
            .and_then(|at| entries.get(at))
            .copied()
            .ok_or_else(|| outside(position, entries.len()))?;
    }
    Ok(())
}

fn outside(position: u32, entries: usize) -> Error {
    Error::malformed(
        Rule::PaletteIndex,
        format!("index {position} is outside a codebook of {entries} values"),
    )
}

/// Returns an element as an unsigned integer.
#[inline]
fn word<const W: usize>(item: &[u8; W]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..W].copy_from_slice(item);
    u64::from_le_bytes(bytes)
}

/// Splits like [`split`], with a hash table.
fn split_hashed<const W: usize>(items: &[[u8; W]], most: usize) -> Option<(Vec<u64>, Vec<u8>)> {
    let mut seen = Positions::default();
    let mut codebook = Vec::new();
    for item in items {
        if seen.insert(word(item), codebook.len()) {
            codebook.push(word(item));
            if codebook.len() > most {
                return None;
            }
        }
    }
    codebook.sort_unstable();
    let mut positions = Positions::default();
    for (position, &value) in codebook.iter().enumerate() {
        positions.insert(value, position);
    }
    let width = index_bytes(codebook.len());
    let positions = items.iter().filter_map(|item| positions.find(word(item)));
    let index = positions.flat_map(|position| position.to_le_bytes().into_iter().take(width));
    let index = index.collect();
    Some((codebook, index))
}

/// A hash table from values to indices, with open addressing. The hash function
/// is fixed, so for values chosen to collide, each operation takes time
/// proportional to the length of the codebook, which the caller bounds.
#[derive(Default)]
struct Positions {
    /// The values with their indices. The number of slots is a power of two,
    /// and at most half of them are in use.
    slots: Vec<Option<(u64, u32)>>,
    used: usize,
}

impl Positions {
    fn slot(&self, value: u64) -> usize {
        let bits = self.slots.len().trailing_zeros();
        // Fibonacci hashing: the high bits of a product are well mixed.
        let hash = value.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let hash = (hash ^ hash >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - bits);
        let mask = self.slots.len() - 1;
        let mut at = usize::try_from(hash).unwrap_or(0) & mask;
        while self.slots[at].is_some_and(|(other, _)| other != value) {
            at = (at + 1) & mask;
        }
        at
    }

    fn find(&self, value: u64) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        self.slots[self.slot(value)].map(|(_, position)| position)
    }

    /// Inserts a value. Returns whether it was new.
    fn insert(&mut self, value: u64, position: usize) -> bool {
        if self.used * 2 >= self.slots.len() {
            let larger = vec![None; (self.slots.len() * 4).max(1024)];
            for entry in core::mem::replace(&mut self.slots, larger)
                .into_iter()
                .flatten()
            {
                let at = self.slot(entry.0);
                self.slots[at] = Some(entry);
            }
        }
        let at = self.slot(value);
        if self.slots[at].is_some() {
            return false;
        }
        self.slots[at] = Some((value, u32::try_from(position).unwrap_or(u32::MAX)));
        self.used += 1;
        true
    }
}

/// Maximum number of values that a one-byte index can distinguish.
const MAX_VALUES: usize = 256;

/// Number of elements that are examined before the whole index is allocated. If
/// there are too many distinct elements, the first ones usually reveal it.
const CHUNK_ITEMS: usize = 4096;

/// The result of building a small palette.
enum SmallPalette {
    /// The codebook and the index.
    Split(Vec<u64>, Vec<u8>),
    /// There are more values than allowed.
    TooMany,
    /// None of the tried hashes maps the values to different slots, which means
    /// that they were chosen to collide.
    Collide,
}

/// Splits like [`split`], for a `most` of up to [`MAX_VALUES`].
fn split_small<const W: usize>(items: &[[u8; W]], most: usize) -> SmallPalette {
    let Some(first) = items.first() else {
        return SmallPalette::Split(Vec::new(), Vec::new());
    };
    if most == 0 {
        return SmallPalette::TooMany;
    }
    let mut numbers = Numbers::<W>::new(word(first));
    let mut index: Vec<u8> = Vec::new();
    for chunk in items.chunks(CHUNK_ITEMS) {
        let start = index.len();
        if start == CHUNK_ITEMS {
            index.reserve_exact(items.len() - start);
        }
        index.resize(start + chunk.len(), 0);
        for (number, item) in index[start..].iter_mut().zip(chunk) {
            let value = word(item);
            *number = match numbers.find(value) {
                Some(number) => number,
                None if numbers.count >= most => return SmallPalette::TooMany,
                None => match numbers.add(value) {
                    Some(number) => number,
                    None => return SmallPalette::Collide,
                },
            };
        }
    }
    // Up to here, values are numbered in order of appearance.
    let mut codebook = numbers.values[..numbers.count].to_vec();
    codebook.sort_unstable();
    let mut positions = [0; MAX_VALUES];
    for (&value, position) in codebook.iter().zip(0..=u8::MAX) {
        if let Some(number) = numbers.find(value) {
            positions[usize::from(number)] = position;
        }
    }
    for position in &mut index {
        *position = positions[usize::from(*position)];
    }
    SmallPalette::Split(codebook, index)
}

const SLOTS: usize = 1 << 16;
/// The maximum number of hashes that are tried. Each has a better than even
/// chance to map 256 values to different slots, unless they were chosen to
/// collide.
const MULTIPLIERS: usize = 64;

/// Values of `W` bytes and their numbers, found in one step by a hash that maps
/// each value to its own slot.
struct Numbers<const W: usize> {
    values: [u64; MAX_VALUES],
    count: usize,
    /// The number of the value in each slot; 0 in empty slots.
    slots: Box<[u8; SLOTS]>,
    multiplier: u64,
}

impl<const W: usize> Numbers<W> {
    fn new(first: u64) -> Self {
        Self {
            values: [first; MAX_VALUES],
            count: 1,
            slots: empty(),
            // An odd number with evenly distributed ones and zeros, derived
            // from the golden ratio.
            multiplier: 0x9E37_79B9_7F4A_7C15,
        }
    }

    fn slot(&self, value: u64) -> usize {
        match W {
            // Values of up to 16 bits are slot indices themselves.
            1 | 2 => crate::bytes::index(value) % SLOTS,
            _ => crate::bytes::index(value.wrapping_mul(self.multiplier) >> 48),
        }
    }

    #[inline]
    fn find(&self, value: u64) -> Option<u8> {
        let number = self.slots[self.slot(value)];
        (self.values[usize::from(number)] == value).then_some(number)
    }

    /// Adds a new value and returns its number, or `None` if no hash maps all
    /// values to different slots.
    #[cold]
    fn add(&mut self, value: u64) -> Option<u8> {
        let number = u8::try_from(self.count).ok()?;
        self.values[self.count] = value;
        self.count += 1;
        if self.claim_slot(number) {
            return Some(number);
        }
        for _ in 0..MULTIPLIERS {
            // Products are well mixed in their upper half only.
            self.multiplier = self
                .multiplier
                .rotate_left(25)
                .wrapping_mul(0x5851_F42D_4C95_7F2D)
                | 1;
            self.slots = empty();
            if (0..=number).all(|number| self.claim_slot(number)) {
                return Some(number);
            }
        }
        None
    }

    /// Assigns a value to its slot. Returns `false` if another value occupies
    /// it.
    fn claim_slot(&mut self, number: u8) -> bool {
        let slot = self.slot(self.values[usize::from(number)]);
        let holder = self.slots[slot];
        // An empty slot holds 0, the number of the first value.
        if holder != number && self.slot(self.values[usize::from(holder)]) == slot {
            return false;
        }
        self.slots[slot] = number;
        true
    }
}

fn empty() -> Box<[u8; SLOTS]> {
    // The length is right by construction. `vec!` allocates directly on the
    // heap.
    let slots: Result<Box<[u8; SLOTS]>, _> = vec![0; SLOTS].into_boxed_slice().try_into();
    slots.unwrap_or_else(|_| Box::new([0; SLOTS]))
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_worked_example() {
        // docs/formats/z4ai-frames.md 17
        let words = [0u16, 0x3F80, 0, 0, 0xBF80, 0x3F80, 0, 0x1234, 0x8000, 0];
        let elements: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let (codebook, index) = split(&elements, 2, 256).unwrap();
        assert_eq!(codebook, [0, 0x1234, 0x3F80, 0x8000, 0xBF80]);
        assert_eq!(index, [0, 2, 0, 0, 4, 2, 0, 1, 3, 0]);
        assert!(split(&elements, 2, 4).is_none());
        assert!(split(&elements, 2, 0).is_none());
        assert_eq!(split(&[], 2, 0), Some((vec![], vec![])));
    }

    #[test]
    fn an_index_past_the_codebook_is_refused() {
        let mut out = [0; 4];
        for (index, index_bytes) in [
            (&[0, 2][..], 1),
            (&[0, 0, 0, 1], 2),
            (&[0, 0, 0, 0, 0, 0, 0, 1], 4),
        ] {
            let error = join(index, index_bytes, &[1, 1, 2, 2], 2, &mut out).unwrap_err();
            assert_eq!(error.rule(), Some(Rule::PaletteIndex));
        }
    }

    proptest! {
        #[test]
        fn join_undoes_split(log in 0u32..4, distinct in prop::sample::select(vec![1u64, 3, 256, 300, 70_000]), seed: u64) {
            let width = 1usize << log;
            let elements: Vec<u8> = (0..distinct * 2)
                .flat_map(|i| {
                    let value = (i % distinct).wrapping_mul(seed | 1).wrapping_add(seed);
                    value.to_le_bytes()[..width].to_vec()
                })
                .collect();
            let (book, index) = split(&elements, width, usize::MAX).unwrap();
            let few = split(&elements, width, 256);
            prop_assert_eq!(few, (book.len() <= 256).then(|| (book.clone(), index.clone())));
            let coded: Vec<u8> = book.iter().flat_map(|v| v.to_le_bytes()[..width].to_vec()).collect();
            let mut out = vec![0; elements.len()];
            join(&index, index_bytes(book.len()), &coded, width, &mut out).unwrap();
            prop_assert_eq!(out, elements);
        }
    }
}
