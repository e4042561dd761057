//! Few distinct elements: a codebook of them, and an index per element
//! (docs/formats/z4ai-frames.md 10).
//!
//! All functions panic if `width` is not 1, 2, 4 or 8 or does not divide the
//! length of the elements.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::by_width;
use crate::{Error, Result, Rule};

/// The distinct elements in ascending order as unsigned integers; `None` as
/// soon as there are more than `most`.
#[must_use]
pub fn codebook(elements: &[u8], width: usize, most: usize) -> Option<Vec<u64>> {
    by_width!(width, codebook_fixed(elements, most))
}

fn codebook_fixed<const W: usize>(elements: &[u8], most: usize) -> Option<Vec<u64>> {
    let (items, rest) = elements.as_chunks::<W>();
    assert!(rest.is_empty());
    let mut seen = Places::for_items::<W>(items.len());
    let mut values = Vec::new();
    let mut before = None;
    for item in items {
        let value = Some(word(item));
        if value == before {
            continue;
        }
        before = value;
        if seen.insert(word(item), values.len()) {
            values.push(word(item));
            if values.len() > most {
                return None;
            }
        }
    }
    values.sort_unstable();
    Some(values)
}

/// Bytes of an index into a codebook of that many entries.
#[must_use]
pub fn index_bytes(entries: usize) -> usize {
    match entries {
        0..=256 => 1,
        257..=65_536 => 2,
        _ => 4,
    }
}

/// The place of every element in `codebook`, which holds them all, in
/// [`index_bytes`] bytes each.
///
/// # Panics
/// If an element is not in the codebook.
#[must_use]
pub fn index(elements: &[u8], width: usize, codebook: &[u64]) -> Vec<u8> {
    by_width!(width, index_fixed(elements, codebook))
}

fn index_fixed<const W: usize>(elements: &[u8], codebook: &[u64]) -> Vec<u8> {
    let items = elements.as_chunks::<W>().0;
    let mut places = Places::for_items::<W>(items.len());
    for (place, &value) in codebook.iter().enumerate() {
        places.insert(value, place);
    }
    let items = items.iter();
    let places = items.map(|item| places.find(word(item)).expect("the codebook is complete"));
    match index_bytes(codebook.len()) {
        1 => places.map(|place| place.to_le_bytes()[0]).collect(),
        width => places
            .flat_map(|place| place.to_le_bytes().into_iter().take(width))
            .collect(),
    }
}

/// Looks every index up in `codebook`, both as they are in a frame.
///
/// # Panics
/// If `out` is not as long as the index asks for, or `index_bytes` is not 1,
/// 2 or 4; the frame has checked both.
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
            // A full table needs no check per element.
            let mut table = [[0; W]; 256];
            for (to, entry) in table.iter_mut().zip(entries) {
                *to = *entry;
            }
            if let Some(&most) = index.iter().max()
                && usize::from(most) >= entries.len()
            {
                return Err(outside(most.into(), entries.len()));
            }
            for (item, &place) in items.iter_mut().zip(index) {
                *item = table[usize::from(place)];
            }
            Ok(())
        }
        2 => {
            let places = index.as_chunks::<2>().0.iter();
            look_up(
                places.map(|&p| u16::from_le_bytes(p).into()),
                entries,
                items,
            )
        }
        4 => {
            let places = index.as_chunks::<4>().0.iter();
            look_up(places.map(|&p| u32::from_le_bytes(p)), entries, items)
        }
        other => panic!("indices of {other} bytes"),
    }
}

fn look_up<const W: usize>(
    places: impl Iterator<Item = u32>,
    entries: &[[u8; W]],
    items: &mut [[u8; W]],
) -> Result<()> {
    for (item, place) in items.iter_mut().zip(places) {
        *item = usize::try_from(place)
            .ok()
            .and_then(|at| entries.get(at))
            .copied()
            .ok_or_else(|| outside(place, entries.len()))?;
    }
    Ok(())
}

fn outside(place: u32, entries: usize) -> Error {
    Error::malformed(
        Rule::PaletteIndex,
        format!("index {place} in a codebook of {entries} values"),
    )
}

fn word<const W: usize>(item: &[u8; W]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..W].copy_from_slice(item);
    u64::from_le_bytes(bytes)
}

/// From values to places.
enum Places {
    /// By the value itself; [`NOWHERE`] where there is none.
    Direct(Vec<u32>),
    Hashed(Hashed),
}

const NOWHERE: u32 = u32::MAX;
/// Elements from which on a table of all values of two bytes pays.
const DIRECT_LEAST: usize = 1 << 13;

impl Places {
    /// For that many elements of `W` bytes.
    fn for_items<const W: usize>(count: usize) -> Self {
        if W <= 2 && count >= DIRECT_LEAST {
            Self::Direct(vec![NOWHERE; 1 << (8 * W)])
        } else {
            Self::Hashed(Hashed::default())
        }
    }

    #[inline]
    fn find(&self, value: u64) -> Option<u32> {
        match self {
            Self::Direct(places) => {
                let place = places[crate::bytes::index(value)];
                (place != NOWHERE).then_some(place)
            }
            Self::Hashed(places) => places.find(value),
        }
    }

    /// Whether `value` was not there yet; if so it is now, at `place`.
    #[inline]
    fn insert(&mut self, value: u64, place: usize) -> bool {
        match self {
            Self::Direct(places) => {
                let slot = &mut places[crate::bytes::index(value)];
                let is_new = *slot == NOWHERE;
                if is_new {
                    // A value of two bytes has one of 2^16 places.
                    *slot = u32::try_from(place).unwrap_or(NOWHERE);
                }
                is_new
            }
            Self::Hashed(places) => places.insert(value, place),
        }
    }
}

/// A hash table from values to places, open addressing. The hash is fixed:
/// values made to collide cost time in proportion to the codebook's length,
/// which the caller bounds.
#[derive(Default)]
struct Hashed {
    /// Value and place, a power of two of them, at most half in use.
    slots: Vec<Option<(u64, u32)>>,
    used: usize,
}

impl Hashed {
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
        self.slots[self.slot(value)].map(|(_, place)| place)
    }

    /// Tells whether the value is new.
    fn insert(&mut self, value: u64, place: usize) -> bool {
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
        self.slots[at] = Some((value, u32::try_from(place).unwrap_or(u32::MAX)));
        self.used += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_worked_example() {
        // docs/formats/z4ai-frames.md 17
        let words = [0u16, 0x3F80, 0, 0, 0xBF80, 0x3F80, 0, 0x1234, 0x8000, 0];
        let elements: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let codebook = codebook(&elements, 2, 256).unwrap();
        assert_eq!(codebook, [0, 0x1234, 0x3F80, 0x8000, 0xBF80]);
        assert_eq!(
            index(&elements, 2, &codebook),
            [0, 2, 0, 0, 4, 2, 0, 1, 3, 0]
        );
        assert!(super::codebook(&elements, 2, 4).is_none());
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
        fn join_undoes_index(log in 0u32..4, distinct in prop::sample::select(vec![1u64, 3, 256, 300, 70_000]), seed: u64) {
            let width = 1usize << log;
            let elements: Vec<u8> = (0..distinct * 2)
                .flat_map(|i| {
                    let value = (i % distinct).wrapping_mul(seed | 1).wrapping_add(seed);
                    value.to_le_bytes()[..width].to_vec()
                })
                .collect();
            let book = codebook(&elements, width, usize::MAX).unwrap();
            let index = index(&elements, width, &book);
            let coded: Vec<u8> = book.iter().flat_map(|v| v.to_le_bytes()[..width].to_vec()).collect();
            let mut out = vec![0; elements.len()];
            join(&index, index_bytes(book.len()), &coded, width, &mut out).unwrap();
            prop_assert_eq!(out, elements);
        }
    }
}
