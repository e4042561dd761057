//! Zero points (docs/formats/compressed-tensors.md 6 and 7.3).

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::bitstring::Layout;
use super::codes::{byte_values, offset_integers};
use super::geometry::Geometry;
use super::grid::Grid;
use super::part::View;
use super::stored::Stored;
use crate::bytes::index;
use crate::dtype::Dtype;
use crate::tensor::element_count;
use crate::{Error, Result, Rule};

/// Returns zero points of one byte each, in the order of the scales.
pub fn plain(view: View<'_>, scale: &Stored) -> Result<Vec<f32>> {
    if view.stored.shape != scale.shape {
        return Err(Error::malformed(
            Rule::CompressedTensorsShape,
            format!(
                "`{}` has shape {:?}, the scales have {:?}",
                view.stored.name, view.stored.shape, scale.shape
            ),
        ));
    }
    let values = byte_values(view.stored.dtype == Dtype::F8E4M3);
    Ok(view
        .bytes
        .iter()
        .map(|&code| values[usize::from(code)])
        .collect())
}

/// Returns zero points that are packed down the rows: each column of words is
/// the bit string of one column of entries.
pub fn packed(
    view: View<'_>,
    geometry: &Geometry,
    grid: &Grid,
    layout: Layout,
    bits: u8,
) -> Result<Vec<f32>> {
    let words = layout.words(grid.entry_rows);
    geometry.expect(view.stored, [words, grid.entry_columns])?;
    let values = offset_integers(bits);
    let matrices = element_count(geometry.leading()).unwrap_or_default();
    if matrices == 0 || grid.entry_rows == 0 || grid.entry_columns == 0 {
        return Ok(Vec::new());
    }
    let [matrices, rows, columns, words] =
        [matrices, grid.entry_rows, grid.entry_columns, words].map(index);
    // The zero points are not more than the scales, which are stored.
    let mut zeros = vec![0.0; matrices * rows * columns];
    let mut string = Vec::with_capacity(words * 4);
    for matrix in 0..matrices {
        let words_of_matrix = &view.bytes[matrix * words * columns * 4..][..words * columns * 4];
        for column in 0..columns {
            string.clear();
            for word in words_of_matrix[column * 4..].chunks(columns * 4) {
                string.extend_from_slice(&word[..4]);
            }
            for row in 0..rows {
                zeros[(matrix * rows + row) * columns + column] =
                    values[usize::from(layout.code(&string, row))];
            }
        }
    }
    Ok(zeros)
}
