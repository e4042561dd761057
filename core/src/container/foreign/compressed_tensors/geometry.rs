//! The shape of a weight, as a sequence of matrices.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::part::View;
use super::stored::Stored;
use crate::tensor::element_count;
use crate::{Error, Result, Rule};

/// The shape of a dense weight, interpreted as a sequence of matrices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
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

impl Geometry {
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
    pub fn expect(&self, stored: &Stored, last: [u64; 2]) -> Result<()> {
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
pub fn stored_shape(view: View<'_>, rank: usize) -> Result<Vec<u64>> {
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
