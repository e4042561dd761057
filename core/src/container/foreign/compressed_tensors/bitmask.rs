//! Expands values to the positions marked in a mask
//! (docs/formats/compressed-tensors.md 3 and 4).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::format::Format;
use super::geometry::stored_shape;
use super::part::{Role, View, Views};
use crate::bytes::{buffer, index};
use crate::tensor::element_count;
use crate::{Error, Result, Rule};

fn refuse(detail: String) -> Error {
    Error::malformed(Rule::CompressedTensorsShape, detail)
}

/// Returns the dense shape, which must fit the shape of the mask. The mask has
/// one bit per element, so the file justifies the length.
pub fn dense_shape(format: Format, shape: View<'_>, bitmask: &[u64]) -> Result<Vec<u64>> {
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
    if format == Format::Sparse24Bitmask && (dense.len() != 2 || columns % 4 != 0) {
        return Err(refuse(format!(
            "a tensor of shape {dense:?} has no groups of four"
        )));
    }
    Ok(dense)
}

/// Decodes the dense tensor of `shape` from its parts.
pub fn expand(format: Format, shape: &[u64], views: Views<'_>) -> Result<Vec<u8>> {
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
    let two_of_four = format == Format::Sparse24Bitmask;
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

fn check_values(format: Format, shape: &[u64], values: View<'_>) -> Result<()> {
    let fits = match (format, shape, values.stored.shape.as_slice()) {
        (Format::Sparse24Bitmask, [rows, columns], [r, half]) => r == rows && *half == columns / 2,
        (Format::Sparse24Bitmask, ..) => false,
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
