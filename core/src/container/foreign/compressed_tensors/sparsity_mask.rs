//! Finds the elements of a dense tensor that a sparse format stores
//! (docs/formats/compressed-tensors.md 3 and 4).

use alloc::vec;
use alloc::vec::Vec;

use crate::tensor::element_count;

/// The mask of the stored elements, and their number.
pub struct SparsityMask {
    pub bits: Vec<u8>,
    /// The number of stored elements in the preceding rows, for each row.
    pub offsets: Vec<u64>,
    pub count: u64,
    /// The number of zeros that are stored because a group of four elements has fewer than
    /// two nonzero values (2:4 sparsity).
    pub filled: u64,
}

impl SparsityMask {
    /// Examines rows of `columns` elements of `width` bytes each; both numbers
    /// are at least 1. With `two_of_four`, returns `None` if a group of four
    /// has more than two nonzero values.
    pub fn new(bytes: &[u8], columns: usize, width: usize, two_of_four: bool) -> Option<Self> {
        let mut mask = SparsityMask {
            bits: Vec::with_capacity(bytes.len() / width / 8 + 1),
            offsets: Vec::with_capacity(bytes.len() / width / columns),
            count: 0,
            filled: 0,
        };
        for row in bytes.chunks_exact(columns * width) {
            mask.offsets.push(mask.count);
            for eight in row.chunks(8 * width) {
                let elements = eight.chunks_exact(width).enumerate();
                let mut marks = elements.fold(0u8, |marks, (place, element)| {
                    marks | u8::from(element.iter().any(|&byte| byte != 0)) << place
                });
                if two_of_four {
                    let all = marks;
                    marks = stored_pair(marks & 0xF)?;
                    if eight.len() > 4 * width {
                        marks |= stored_pair(all >> 4)? << 4;
                    }
                    mask.filled += u64::from(marks.count_ones() - all.count_ones());
                }
                mask.count += u64::from(marks.count_ones());
                mask.bits.push(marks);
            }
        }
        Some(mask)
    }
    /// Returns the stored elements of the rows that the mask was made from.
    pub fn values(&self, bytes: &[u8], columns: usize, width: usize) -> Vec<u8> {
        let rows = bytes.chunks_exact(columns * width);
        let masks = self.bits.chunks_exact(columns.div_ceil(8));
        let mut values = Vec::new();
        for (row, mask) in rows.zip(masks) {
            for (place, element) in row.chunks_exact(width).enumerate() {
                if mask[place / 8] >> (place % 8) & 1 == 1 {
                    values.extend_from_slice(element);
                }
            }
        }
        values
    }
}

/// Returns the two stored positions of a group, or `None` if more than two are
/// marked. If fewer are marked, the package's choice completes them.
fn stored_pair(marks: u8) -> Option<u8> {
    match (marks, marks.count_ones()) {
        (_, 2) => Some(marks),
        (0b0001, _) => Some(0b0101),
        (0b0010, _) => Some(0b1010),
        (0 | 0b0100 | 0b1000, _) => Some(0b1100),
        _ => None,
    }
}

/// Returns the row offsets of the format, from the number of values `before`
/// each row and their total `count`. In the format, the running sum goes over
/// the first dimension only.
pub fn row_offsets(rows: &[u64], before: &[u64], count: u64) -> impl Iterator<Item = u64> {
    let inner = rows.get(1..).unwrap_or_default();
    let per_first = element_count(inner).unwrap_or(u64::MAX);
    let counts: Vec<u64> = before
        .iter()
        .zip(before.iter().skip(1).chain([&count]))
        .map(|(start, end)| end - start)
        .collect();
    let per_first = usize::try_from(per_first).unwrap_or(usize::MAX);
    let mut sums = vec![0; per_first.min(counts.len())];
    counts.into_iter().enumerate().map(move |(row, count)| {
        let sum = &mut sums[row % per_first];
        *sum += count;
        *sum - count
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_that_the_package_picks() {
        for (marks, expected) in [(0, 12), (1, 5), (2, 10), (4, 12), (8, 12), (3, 3), (9, 9)] {
            assert_eq!(stored_pair(marks), Some(expected));
        }
        for marks in [7, 11, 13, 14, 15] {
            assert_eq!(stored_pair(marks), None);
        }
    }

    #[test]
    fn offsets_of_three_dimensions_run_over_the_first() {
        // The rows of [2, 3] have 1, 2, 3 and 4, 5, 6 values.
        let before = [0, 1, 3, 6, 10, 15];
        let offsets: Vec<u64> = row_offsets(&[2, 3], &before, 21).collect();
        assert_eq!(offsets, [0, 0, 0, 1, 2, 3]);
        let offsets: Vec<u64> = row_offsets(&[6], &before, 21).collect();
        assert_eq!(offsets, before);
        assert_eq!(row_offsets(&[], &[0], 21).collect::<Vec<u64>>(), [0]);
    }
}
