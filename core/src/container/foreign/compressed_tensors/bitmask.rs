//! The two sparse formats (docs/formats/compressed-tensors.md 3 and 4):
//! computes the mask of the elements that are stored, and expands stored
//! elements to the positions in a mask.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::WeightFormat;
use super::checkpoint::{Role, View, Views};
use super::geometry::stored_shape;
use crate::bytes::{buffer, index};
use crate::tensor::element_count;
use crate::{Error, Result, Rule};

fn refuse(detail: String) -> Error {
    Error::malformed(Rule::CompressedTensorsShape, detail)
}

/// Returns the dense shape, which must fit the shape of the mask. The mask has
/// one bit per element, so the file justifies the length.
pub(crate) fn dense_shape(
    format: WeightFormat,
    shape: View<'_>,
    bitmask: &[u64],
) -> Result<Vec<u64>> {
    let dense = stored_shape(shape, bitmask.len())?;
    let [leading @ .., columns] = dense.as_slice() else {
        return Err(refuse(
            "a tensor without dimensions cannot be sparse".into(),
        ));
    };
    let fits = matches!(bitmask, [rows @ .., bytes]
        if rows == leading && *bytes == columns.div_ceil(8));
    if !fits || element_count(&dense).is_none() {
        return Err(refuse(format!(
            "the shape {dense:?} does not match a mask of shape {bitmask:?}"
        )));
    }
    if format == WeightFormat::Sparse24Bitmask && (dense.len() != 2 || columns % 4 != 0) {
        return Err(refuse(format!(
            "a tensor of shape {dense:?} has no groups of four"
        )));
    }
    Ok(dense)
}

/// Decodes the dense tensor of `shape` from its parts.
pub fn expand(format: WeightFormat, shape: &[u64], views: Views<'_>) -> Result<Vec<u8>> {
    let values = views.need(Role::Values)?;
    let bitmask = views.need(Role::Bitmask)?;
    check_values(format, shape, values)?;
    let width = index(values.stored.dtype.bits() / 8);
    let count = element_count(shape).unwrap_or(u64::MAX);
    let mut dense = buffer(count.saturating_mul(width as u64))?;
    if dense.is_empty() {
        return match values.bytes {
            [] => Ok(dense),
            _ => Err(mismatch(values, 0, width)),
        };
    }
    let columns = index(shape.last().copied().unwrap_or_default());
    let two_of_four = format == WeightFormat::Sparse24Bitmask;
    let mut offsets = views
        .get(Role::RowOffsets)
        .filter(|_| shape.len() == 2)
        .map(View::integers);
    let mut used = 0;
    let rows = dense.chunks_exact_mut(columns * width);
    for (row, (dense, mask)) in rows
        .zip(bitmask.bytes.chunks_exact(columns.div_ceil(8)))
        .enumerate()
    {
        if let Some(offsets) = &mut offsets {
            let offset = offsets.next().transpose()?;
            if offset.and_then(|offset| usize::try_from(offset).ok()) != Some(used / width) {
                return Err(Error::malformed(
                    Rule::CompressedTensorsRowOffsets,
                    format!(
                        "row {row} begins after {} values, which is not its stored offset",
                        used / width
                    ),
                ));
            }
        }
        for (byte, &marks) in mask.iter().enumerate() {
            check_marks(marks, columns - byte * 8, two_of_four, row)?;
            let mut marks = marks;
            while marks != 0 {
                let column = byte * 8 + marks.trailing_zeros() as usize;
                let value = values
                    .bytes
                    .get(used..used + width)
                    .ok_or_else(|| mismatch(values, used / width + 1, width))?;
                dense[column * width..][..width].copy_from_slice(value);
                used += width;
                marks &= marks - 1;
            }
        }
    }
    if used != values.bytes.len() {
        return Err(mismatch(values, used / width, width));
    }
    Ok(dense)
}

fn check_values(format: WeightFormat, shape: &[u64], values: View<'_>) -> Result<()> {
    let fits = match (format, shape, values.stored.shape.as_slice()) {
        (WeightFormat::Sparse24Bitmask, [rows, columns], [r, half]) => {
            r == rows && *half == columns / 2
        }
        (WeightFormat::Sparse24Bitmask, ..) => false,
        (_, _, [_]) => true,
        _ => false,
    };
    if fits {
        return Ok(());
    }
    Err(refuse(format!(
        "the values have shape {:?}, which does not match a tensor of shape {shape:?}",
        values.stored.shape
    )))
}

/// Checks one byte of a mask. `left` is the number of columns from this byte
/// on.
fn check_marks(marks: u8, left: usize, two_of_four: bool, row: usize) -> Result<()> {
    if left < 8 && marks >> left != 0 {
        return Err(Error::malformed(
            Rule::CompressedTensorsMask,
            format!("the mask of row {row} has bits set past the last column"),
        ));
    }
    let two = |nibble: u8| nibble.count_ones() == 2;
    if two_of_four && !(two(marks & 0xF) && (two(marks >> 4) || left <= 4)) {
        return Err(Error::malformed(
            Rule::CompressedTensorsMask,
            format!("a group of four in row {row} does not have exactly two bits set"),
        ));
    }
    Ok(())
}

fn mismatch(values: View<'_>, marked: usize, width: usize) -> Error {
    Error::malformed(
        Rule::CompressedTensorsMask,
        format!(
            "there are {} values, but the mask marks {} {marked} places",
            values.bytes.len() / width,
            if marked * width > values.bytes.len() {
                "at least"
            } else {
                "only"
            },
        ),
    )
}

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

/// Returns a mask of the two elements of a group of four that are stored, given
/// a mask of its nonzero elements; `None` if more than two are nonzero. If
/// there are fewer, the elements that the package would add are set.
fn stored_pair(marks: u8) -> Option<u8> {
    match (marks, marks.count_ones()) {
        (_, 2) => Some(marks),
        (0b0001, _) => Some(0b0101),
        (0b0010, _) => Some(0b1010),
        (0 | 0b0100 | 0b1000, _) => Some(0b1100),
        _ => None,
    }
}

/// Returns the entries of the stored tensor `row_offsets`, from the number of
/// values `before` each row and their total `count`. `rows` contains all
/// dimensions but the last. The format sums over the first of them only.
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
