//! Decoding of sparse layouts to dense tensors (docs/formats/ztensor.md 6.1,
//! 7.3 and 8.3).

use alloc::borrow::Cow;
use alloc::format;
use alloc::vec::Vec;

use super::footer::ZTensorVersion;
use super::part::Part;
use super::tensor::{ManifestTensor, TensorLayout};
use crate::bytes;
use crate::dtype::Dtype;
use crate::engine::Engine;
use crate::limits::{SPARSE_BYTES_PER_BYTE, SPARSE_FREE_BYTES};
use crate::{Error, Result, Rule};

/// The stored elements, with the position of each in the dense tensor.
struct Entries<'a> {
    /// The row-major indices of the elements in the dense tensor.
    cells: Vec<u64>,
    values: Cow<'a, [u8]>,
}

/// Returns all elements of a sparse `tensor`, decoded from its `stored` bytes.
pub(super) fn decode<E: Engine>(
    tensor: &ManifestTensor,
    engine: &E,
    stored: &[u8],
) -> Result<Vec<u8>> {
    let Some(width) = tensor.element().width_bytes() else {
        return Err(Error::unsupported(
            "sparse layouts of elements below one byte cannot be read",
        ));
    };
    let len_bytes = tensor.len_bytes();
    let reader = Reader {
        tensor,
        engine,
        stored,
    };
    let entries = match tensor.layout {
        TensorLayout::Csr => reader.csr(),
        TensorLayout::Coo => reader.coo(width),
        TensorLayout::PackedCsr => reader.packed_csr(width),
        _ => reader.packed_coo(width),
    }?;
    let must_rise = tensor.version == ZTensorVersion::V2 && tensor.layout == TensorLayout::Csr;
    check_distinct(&entries.cells, must_rise)?;
    let paid_for = (stored.len() as u64).max(entries.values.len() as u64);
    let limit = SPARSE_FREE_BYTES.max(paid_for.saturating_mul(SPARSE_BYTES_PER_BYTE));
    if len_bytes > limit {
        return Err(Error::limit(format!(
            "a sparse tensor of {paid_for} bytes would decode to {len_bytes} bytes, over the \
             limit of {limit}"
        )));
    }
    let mut out = bytes::buffer(len_bytes)?;
    for (&cell, value) in entries.cells.iter().zip(entries.values.chunks_exact(width)) {
        let start = bytes::index(cell) * width;
        out[start..start + width].copy_from_slice(value);
    }
    Ok(out)
}

/// Fails if two values are stored for the same element: the format does not
/// specify which one is meant.
fn check_distinct(cells: &[u64], must_rise: bool) -> Result<()> {
    if cells.is_sorted_by(|a, b| a < b) {
        return Ok(());
    }
    if must_rise {
        return Err(bad("the columns of a row do not increase"));
    }
    let mut sorted = cells.to_vec();
    sorted.sort_unstable();
    if sorted.is_sorted_by(|a, b| a < b) {
        return Ok(());
    }
    Err(bad("one element is stored twice"))
}

struct Reader<'r, 's, E> {
    tensor: &'r ManifestTensor,
    engine: &'r E,
    stored: &'s [u8],
}

impl<'s, E: Engine> Reader<'_, 's, E> {
    /// Decodes a part of `count` elements.
    fn elements(&self, part: &Part, count: u64) -> Result<Cow<'s, [u8]>> {
        let stored = self.tensor.stored_of(part, self.stored);
        let len_bytes = part.element.len_bytes(count).ok_or_else(too_many)?;
        part.decode(self.engine, stored, len_bytes)
    }

    fn indices(&self, part: &Part, count: u64) -> Result<Numbers<'s>> {
        let is_wide = match part.element.dtype() {
            Dtype::U64 => true,
            Dtype::U32 => false,
            other => return Err(bad(format!("indices are {other}"))),
        };
        Ok(Numbers {
            bytes: self.elements(part, count)?,
            is_wide,
        })
    }

    /// Returns the number of rows and of columns.
    fn matrix(&self) -> Result<(u64, u64)> {
        match self.tensor.shape[..] {
            [rows, columns] => Ok((rows, columns)),
            _ => Err(bad("compressed rows need two dimensions")),
        }
    }

    fn csr(&self) -> Result<Entries<'s>> {
        let (rows, columns) = self.matrix()?;
        let pointers = rows.checked_add(1).ok_or_else(too_many)?;
        let pointers = self.indices(self.tensor.required("indptr")?, pointers)?;
        let count = pointers.iter().last().unwrap_or(0);
        let indices = self.indices(self.tensor.required("indices")?, count)?;
        Ok(Entries {
            cells: cells_of_rows(pointers.iter(), indices.iter(), columns)?,
            values: self.elements(self.tensor.required("values")?, count)?,
        })
    }

    fn coo(&self, width: usize) -> Result<Entries<'s>> {
        let rank = self.tensor.shape.len() as u64;
        let (values, coords) = (
            self.tensor.required("values")?,
            self.tensor.required("coords")?,
        );
        let expected =
            |part: &Part| part.expected_len_bytes(self.tensor.stored_of(part, self.stored));
        let step = rank.saturating_mul(coords.element.width_bytes().unwrap_or(8) as u64);
        let count = match (expected(values)?, expected(coords)?) {
            (Some(len), _) => len / width as u64,
            (None, Some(len)) if step > 0 => len / step,
            _ => {
                return Err(Error::unsupported(
                    "neither the values nor the coordinates state their length",
                ));
            }
        };
        let values = self.elements(values, count)?;
        let coords = self.indices(coords, count.checked_mul(rank).ok_or_else(too_many)?)?;
        let mut cells = Vec::new();
        cells
            .try_reserve_exact(bytes::index(count))
            .map_err(|_| too_many())?;
        cells.resize(bytes::index(count), 0);
        let mut coords = coords.iter();
        for &dimension in &self.tensor.shape {
            for (cell, coordinate) in cells.iter_mut().zip(&mut coords) {
                *cell = step_into(*cell, dimension, coordinate)?;
            }
        }
        Ok(Entries { cells, values })
    }

    /// Decodes the only part of a version 0.1 tensor. A zstd frame that does
    /// not state its length has the length of the dense tensor, as the old
    /// packages require.
    fn packed(&self) -> Result<Cow<'s, [u8]>> {
        let part = self.tensor.required("data")?;
        let stored = self.tensor.stored_of(part, self.stored);
        let len_bytes = part.expected_len_bytes(stored)?;
        part.decode(
            self.engine,
            stored,
            len_bytes.unwrap_or(self.tensor.len_bytes()),
        )
    }

    fn packed_csr(&self, width: usize) -> Result<Entries<'s>> {
        let (rows, columns) = self.matrix()?;
        let blob = self.packed()?;
        let short = || bad("the row pointers do not match the shape");
        let pointers_end = rows
            .checked_add(1)
            .and_then(|pointers| usize::try_from(pointers).ok()?.checked_mul(8))
            .filter(|&end| end <= blob.len())
            .ok_or_else(short)?;
        let pointers = wide(&blob[..pointers_end]);
        let count = pointers.clone().last().unwrap_or(0);
        let after = &blob[pointers_end..];
        let expected = usize::try_from(count)
            .ok()
            .and_then(|count| count.checked_mul(8 + width));
        if expected != Some(after.len()) {
            return Err(bad(format!(
                "the blob does not have the {count} elements of the rows"
            )));
        }
        let indices = &after[..bytes::index(count) * 8];
        Ok(Entries {
            cells: cells_of_rows(pointers, wide(indices), columns)?,
            values: after[indices.len()..].to_vec().into(),
        })
    }

    fn packed_coo(&self, width: usize) -> Result<Entries<'s>> {
        let shape = &self.tensor.shape;
        let blob = self.packed()?;
        let coordinates = shape.len() * 8;
        if coordinates == 0 || !blob.len().is_multiple_of(coordinates + width) {
            return Err(bad("the blob is not a whole number of records"));
        }
        let (mut cells, mut values) = (Vec::new(), Vec::new());
        for record in blob.chunks_exact(coordinates + width) {
            let (coordinates, value) = record.split_at(coordinates);
            let mut cell = 0;
            for (&dimension, coordinate) in shape.iter().zip(wide(coordinates)) {
                cell = step_into(cell, dimension, coordinate)?;
            }
            cells.push(cell);
            values.extend_from_slice(value);
        }
        Ok(Entries {
            cells,
            values: values.into(),
        })
    }
}

/// Returns the row-major index of an element over one more dimension: `cell` is
/// its index over the dimensions before, and `coordinate` its position in the
/// new one.
fn step_into(cell: u64, dimension: u64, coordinate: u64) -> Result<u64> {
    if coordinate >= dimension {
        return Err(bad(format!(
            "coordinate {coordinate} is outside a dimension of {dimension}"
        )));
    }
    // The result is below the number of elements up to this dimension, which
    // fits in 64 bits.
    Ok(cell * dimension + coordinate)
}

fn cells_of_rows(
    pointers: impl Iterator<Item = u64>,
    mut indices: impl Iterator<Item = u64>,
    columns: u64,
) -> Result<Vec<u64>> {
    let mut cells = Vec::new();
    let mut before = None;
    for (row, pointer) in pointers.enumerate() {
        let begin = before.replace(pointer).unwrap_or(0);
        if pointer < begin || (row == 0 && pointer != 0) {
            return Err(bad("the row pointers do not increase from 0"));
        }
        // The first pointer is 0, so no column is read for it and the wrapped
        // value is not used.
        let first = (row as u64).wrapping_sub(1).wrapping_mul(columns);
        for column in (&mut indices).take(usize::try_from(pointer - begin).unwrap_or(usize::MAX)) {
            if column >= columns {
                return Err(bad(format!("column {column} of {columns}")));
            }
            cells.push(first + column);
        }
    }
    Ok(cells)
}

/// Index values of 32 or 64 bits.
struct Numbers<'a> {
    bytes: Cow<'a, [u8]>,
    is_wide: bool,
}

impl Numbers<'_> {
    fn iter(&self) -> impl Iterator<Item = u64> {
        let width = if self.is_wide { 8 } else { 4 };
        self.bytes.chunks_exact(width).map(|bytes| {
            let all = bytes.iter().rev();
            all.fold(0, |number, &byte| number << 8 | u64::from(byte))
        })
    }
}

fn wide(bytes: &[u8]) -> impl Iterator<Item = u64> + Clone {
    let (numbers, _) = bytes.as_chunks::<8>();
    numbers.iter().map(|bytes| u64::from_le_bytes(*bytes))
}

fn too_many() -> Error {
    bad("more elements than 64 bits can count")
}

fn bad(why: impl Into<Cow<'static, str>>) -> Error {
    Error::malformed(Rule::ZTensorSparse, why)
}
