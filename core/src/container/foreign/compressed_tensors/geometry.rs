//! The shape of a weight as a sequence of matrices, and the scale that each of
//! its elements uses (docs/formats/compressed-tensors.md 6 and 7.4).

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::checkpoint::{TensorSpec, View};
use super::scheme::Strategy;
use crate::bytes::index;
use crate::tensor::element_count;
use crate::{Error, Result, Rule};

/// The shape of a dense weight, interpreted as a sequence of matrices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightShape {
    shape: Vec<u64>,
    /// The number of elements of the weight.
    pub elements: u64,
    /// The number of rows of one matrix.
    pub rows: u64,
    /// The number of columns.
    pub columns: u64,
}

fn refuse(detail: String) -> Error {
    Error::malformed(Rule::CompressedTensorsShape, detail)
}

impl WeightShape {
    pub fn new(shape: Vec<u64>) -> Result<Self> {
        let elements = element_count(&shape).ok_or_else(|| {
            refuse(format!(
                "{shape:?} has more elements than 64 bits can count"
            ))
        })?;
        match *shape.as_slice() {
            [.., rows, columns] => Ok(Self {
                elements,
                rows,
                columns,
                shape,
            }),
            _ => Err(refuse(format!(
                "a weight of shape {shape:?} is not a matrix"
            ))),
        }
    }

    /// Returns the dimensions before the last two.
    pub fn leading(&self) -> &[u64] {
        &self.shape[..self.shape.len() - 2]
    }

    /// Checks that a stored tensor has the dimensions of the weight, with
    /// `last` as the last two.
    pub fn expect(&self, stored: &TensorSpec, last: [u64; 2]) -> Result<()> {
        let fits = matches!(stored.shape.as_slice(), [leading @ .., a, b]
            if leading == self.leading() && [*a, *b] == last);
        if fits {
            return Ok(());
        }
        Err(refuse(format!(
            "`{}` has shape {:?} where a weight of shape {:?} needs {:?} with {last:?} at the end",
            stored.name,
            stored.shape,
            self.shape,
            self.leading(),
        )))
    }
}

/// Returns the shape that is the content of the tensor `view`. It must have
/// `rank` dimensions.
pub(crate) fn stored_shape(view: View<'_>, rank: usize) -> Result<Vec<u64>> {
    if element_count(&view.stored.shape) != Some(rank as u64) {
        return Err(refuse(format!(
            "`{}` has shape {:?} but must list {rank} dimensions",
            view.stored.name, view.stored.shape
        )));
    }
    view.integers()
        .map(|dimension| {
            u64::try_from(dimension?).map_err(|_| {
                refuse(format!(
                    "`{}` contains a negative dimension",
                    view.stored.name
                ))
            })
        })
        .collect()
}

/// The assignment of entries (scales or zero points) to the elements of a
/// weight.
#[derive(Debug, Clone)]
pub struct ScaleGrid {
    /// True if all elements share one entry.
    single: bool,
    /// The number of rows of a matrix.
    rows: u64,
    /// The number of consecutive rows that share their entries.
    rows_per_entry: u64,
    /// The number of rows of entries for one matrix.
    pub entry_rows: u64,
    /// The number of entries for a row.
    pub entry_columns: u64,
    /// The number of adjacent elements in a row that share an entry.
    columns_per_entry: u64,
    /// The entry of each column, if columns are assigned individually.
    columns: Option<Vec<usize>>,
}

impl ScaleGrid {
    /// Creates the grid and checks that the shape of the scales fits the shape
    /// of the weight.
    pub fn new(strategy: Strategy, geometry: &WeightShape, scale: &TensorSpec) -> Result<Self> {
        let (rows, columns) = (geometry.rows, geometry.columns);
        let (rows_per_entry, columns_per_entry) = match strategy {
            Strategy::Tensor => return Self::single(geometry, scale),
            Strategy::Channel => (1, columns),
            Strategy::Group { size } if columns.is_multiple_of(size) => (1, size),
            Strategy::Group { size } => {
                return Err(Error::malformed(
                    Rule::CompressedTensorsShape,
                    format!("{columns} columns cannot be divided into groups of {size}"),
                ));
            }
            Strategy::Block { rows, columns } => (rows, columns),
            Strategy::TensorGroup => {
                return Err(Error::unsupported(
                    "strategy `tensor_group` is supported for four-bit floats only",
                ));
            }
        };
        let grid = Self {
            single: false,
            rows,
            rows_per_entry,
            entry_rows: rows.div_ceil(rows_per_entry),
            entry_columns: match strategy {
                Strategy::Channel => 1,
                _ => columns.div_ceil(columns_per_entry),
            },
            columns_per_entry,
            columns: None,
        };
        geometry.expect(scale, [grid.entry_rows, grid.entry_columns])?;
        Ok(grid)
    }

    fn single(geometry: &WeightShape, scale: &TensorSpec) -> Result<Self> {
        if !matches!(scale.shape.as_slice(), [] | [1]) {
            return Err(Error::malformed(
                Rule::CompressedTensorsShape,
                format!(
                    "`{}` has shape {:?} where one number is expected",
                    scale.name, scale.shape
                ),
            ));
        }
        Ok(Self {
            single: true,
            rows: geometry.rows,
            rows_per_entry: 1,
            entry_rows: 1,
            entry_columns: 1,
            columns_per_entry: geometry.columns,
            columns: None,
        })
    }

    /// Assigns columns to entries as the tensor `groups` states. A tensor that
    /// contains -1 was never filled in, and is ignored.
    pub(crate) fn with_columns(mut self, groups: View<'_>) -> Result<Self> {
        let mut columns = Vec::with_capacity(groups.bytes.len() / 4);
        for group in groups.integers() {
            match group? {
                -1 => return Ok(self),
                group => columns.push(
                    u64::try_from(group)
                        .ok()
                        .filter(|&group| group < self.entry_columns)
                        .map(index)
                        .ok_or_else(|| {
                            Error::malformed(
                                Rule::CompressedTensorsGroupIndex,
                                format!(
                                    "`{}` assigns a column to group {group}; group numbers start \
                                     at 0 and must be below {}",
                                    groups.stored.name, self.entry_columns
                                ),
                            )
                        })?,
                ),
            }
        }
        self.columns = Some(columns);
        Ok(self)
    }

    /// Returns the entries of row `row`, which is counted over all matrices.
    pub fn row(&self, row: usize) -> Range<usize> {
        if self.single {
            return 0..1;
        }
        let (matrix, row) = (row as u64 / self.rows, row as u64 % self.rows);
        let entry_row = matrix * self.entry_rows + row / self.rows_per_entry;
        let start = index(entry_row * self.entry_columns);
        start..start + index(self.entry_columns)
    }

    /// Calls `each` for every run of elements in a row that share an entry,
    /// with the index of the entry in the row.
    pub fn runs<T>(&self, row: &mut [T], mut each: impl FnMut(&mut [T], usize)) {
        match &self.columns {
            Some(columns) => {
                for (element, &entry) in row.iter_mut().zip(columns) {
                    each(core::slice::from_mut(element), entry);
                }
            }
            None => {
                let run = self.columns_per_entry.clamp(1, row.len().max(1) as u64);
                for (entry, elements) in row.chunks_mut(index(run)).enumerate() {
                    each(elements, entry);
                }
            }
        }
    }
}
