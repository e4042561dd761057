//! Sparse elements: a bitmap with one bit per element, and the elements that
//! are not zero (docs/formats/z4ai-frames.md 9.1).
//!
//! An element is zero if all its bits are zero, so a negative zero is a value.
//! All functions with a `width` panic if it is not 1, 2, 4 or 8, or if it does
//! not divide the length of the elements.

use alloc::vec;
use alloc::vec::Vec;

use super::by_width;

/// Returns the number of elements that are zero.
#[must_use]
pub(crate) fn count_zeros(elements: &[u8], width: usize) -> usize {
    by_width!(width, count_zeros_fixed(elements))
}

fn count_zeros_fixed<const W: usize>(elements: &[u8]) -> usize {
    let (items, rest) = elements.as_chunks::<W>();
    assert!(rest.is_empty());
    items.iter().filter(|&&item| item == [0; W]).count()
}

/// Returns the bitmap, most significant bit first, and the concatenated values.
#[must_use]
pub fn split(elements: &[u8], width: usize) -> (Vec<u8>, Vec<u8>) {
    by_width!(width, split_fixed(elements))
}

fn split_fixed<const W: usize>(elements: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (items, rest) = elements.as_chunks::<W>();
    assert!(rest.is_empty());
    let count = items.len() - count_zeros_fixed::<W>(elements);
    // There is space for one group more than needed, because every element is
    // written, and the next one overwrites it if it is zero. This is faster
    // than a branch that no processor can predict.
    let mut values = vec![0; (count + GROUP) * W];
    let mut slots = values.as_chunks_mut::<W>().0;
    let mut bitmap = Vec::with_capacity(items.len().div_ceil(GROUP));
    let (groups, last) = items.as_chunks::<GROUP>();
    for group in groups {
        let (bits, kept) = split_group(group, slots);
        bitmap.push(bits);
        slots = &mut slots[kept..];
    }
    if !last.is_empty() {
        let mut group = [[0; W]; GROUP];
        group[..last.len()].copy_from_slice(last);
        bitmap.push(split_group(&group, slots).0);
    }
    values.truncate(count * W);
    (bitmap, values)
}

/// Number of elements in a byte of the bitmap.
const GROUP: usize = 8;

/// Writes the values of a group to `slots`. Returns the group's byte of the
/// bitmap and the number of values.
#[inline]
fn split_group<const W: usize>(group: &[[u8; W]; GROUP], slots: &mut [[u8; W]]) -> (u8, usize) {
    let slots = slots.first_chunk_mut::<GROUP>().expect("room for a group");
    let (mut bits, mut next) = (0, 0);
    for item in group {
        // At most seven values precede an element of a group.
        slots[next % GROUP] = *item;
        let kept = *item != [0; W];
        bits = bits << 1 | u8::from(kept);
        next += usize::from(kept);
    }
    (bits, next)
}

/// Returns the number of bits set in `bitmap`, whose padding must be zero.
#[must_use]
pub(crate) fn count_values(bitmap: &[u8]) -> u64 {
    let (words, rest) = bitmap.as_chunks::<8>();
    let words = words.iter().map(|&word| u64::from_le_bytes(word));
    let ones = words.map(|word| u64::from(word.count_ones())).sum::<u64>();
    ones + rest.iter().map(|b| u64::from(b.count_ones())).sum::<u64>()
}

/// Returns whether any padding bit after the last of `n` elements is set.
#[must_use]
pub(crate) fn padding_set(bitmap: &[u8], n: u64) -> bool {
    let used = n % 8;
    used != 0 && bitmap.last().is_some_and(|last| last << used != 0)
}

/// Writes `values` to the positions of the set bits, and zeros to all other
/// positions.
///
/// # Panics
/// If the number of values differs from the number of bits; the frame parser
/// has counted them.
pub fn join(bitmap: &[u8], values: &[u8], width: usize, out: &mut [u8]) {
    by_width!(width, join_fixed(bitmap, values, out));
}

fn join_fixed<const W: usize>(bitmap: &[u8], values: &[u8], out: &mut [u8]) {
    let mut values = values.as_chunks::<W>().0;
    assert_eq!(values.len() as u64, count_values(bitmap));
    let (items, rest) = out.as_chunks_mut::<W>();
    assert!(rest.is_empty() && bitmap.len() == items.len().div_ceil(GROUP));
    let (groups, last) = items.as_chunks_mut();
    let (bitmap, last_bits) = bitmap.split_at(groups.len());
    // The next values, followed by zeros.
    let mut front = [[0; W]; 2 * GROUP];
    for (group, &bits) in groups.iter_mut().zip(bitmap) {
        *group = join_group(bits, &mut values, &mut front);
    }
    if let &[bits] = last_bits {
        let group = join_group(bits, &mut values, &mut front);
        last.copy_from_slice(&group[..last.len()]);
    }
}

/// Returns the elements of a byte of the bitmap, using `front` as a buffer, and
/// removes their values from `values`.
fn join_group<const W: usize>(
    bits: u8,
    values: &mut &[[u8; W]],
    front: &mut [[u8; W]; 2 * GROUP],
) -> [[u8; W]; GROUP] {
    match values.first_chunk::<GROUP>() {
        Some(next) => front[..GROUP].copy_from_slice(next),
        None => front[..values.len()].copy_from_slice(values),
    }
    *values = &values[bits.count_ones() as usize..];
    VALUE_INDICES[usize::from(bits)].map(|place| front[usize::from(place) % (2 * GROUP)])
}

/// The index of an element of `front` that is always zero, because at most
/// eight values precede it.
const PAST_VALUES: u8 = 8;

/// For every byte of a bitmap, the index of each element among the next values,
/// or [`PAST_VALUES`] for a zero. A lookup avoids a branch that no processor
/// could predict.
const VALUE_INDICES: [[u8; GROUP]; 256] = {
    let mut all = [[PAST_VALUES; GROUP]; 256];
    let mut bits = 0;
    while bits < 256 {
        let (mut k, mut next) = (0, 0);
        while k < GROUP {
            if bits >> (GROUP - 1 - k) & 1 == 1 {
                all[bits][k] = next;
                next += 1;
            }
            k += 1;
        }
        bits += 1;
    }
    all
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_worked_example() {
        // docs/formats/z4ai-frames.md 17
        let words = [0u16, 0x3F80, 0, 0, 0xBF80, 0x3F80, 0, 0x1234, 0x8000, 0];
        let elements: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let (bitmap, values) = split(&elements, 2);
        assert_eq!(bitmap, [0x4D, 0x80]);
        assert_eq!(
            values,
            [0x80, 0x3F, 0x80, 0xBF, 0x80, 0x3F, 0x34, 0x12, 0, 0x80]
        );
        assert_eq!(count_zeros(&elements, 2), 5);
        assert!(padding_set(&[0x4D, 0xA0], 10) && !padding_set(&bitmap, 10));
    }

    proptest! {
        #[test]
        fn join_undoes_split(log in 0u32..4, bytes in proptest::collection::vec(0u8..3, 0..300)) {
            let width = 1 << log;
            let elements = &bytes[..bytes.len() / width * width];
            let (bitmap, values) = split(elements, width);
            prop_assert_eq!(count_values(&bitmap), (values.len() / width) as u64);
            let mut out = vec![9; elements.len()];
            join(&bitmap, &values, width, &mut out);
            prop_assert_eq!(out, elements);
        }
    }
}
