//! Palettes: a codebook of the distinct elements, and an index into it for each
//! element (docs/formats/z4ai-frames.md 10).
//!
//! All functions with a `width` panic if it is not 1, 2, 4 or 8, or if it does
//! not divide the length of the elements.

use alloc::format;
use alloc::vec::Vec;

use super::by_width;
use crate::{Error, Result, Rule};
use direct::SmallPalette;

mod direct;
mod hashed;

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
    if most <= direct::MAX_VALUES {
        match direct::split(items, most) {
            SmallPalette::Split(codebook, index) => return Some((codebook, index)),
            SmallPalette::TooMany => return None,
            SmallPalette::Collide => {}
        }
    }
    hashed::split(items, most)
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

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use proptest::prelude::*;

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
