//! The rows and columns from which factors are determined. In large matrices
//! these are a sample, so that the running time grows with the sides of a
//! matrix, not with its area.

use alloc::vec::Vec;

use super::elements::{Change, Elements, spread};
use super::matrix::Matrix;
use crate::engine::Engine;

/// The maximum number of sampled rows and columns.
const MAX_LINES: usize = 1024;

/// The changes of the elements at the intersections of sampled rows and
/// columns.
pub struct Block {
    pub rows: Vec<usize>,
    pub columns: Vec<usize>,
    pub by_rows: Vec<Vec<Change>>,
    pub by_columns: Vec<Vec<Change>>,
    /// The root mean square of the units.
    pub unit: f64,
}

impl Block {
    pub fn new<E: Engine>(engine: &E, elements: &Elements) -> Self {
        let rows = spread(elements.rows, MAX_LINES);
        let columns = spread(elements.columns, MAX_LINES);
        let by_rows = engine.map(rows.clone(), |row| elements.row(row, &columns));
        let line = |column| by_rows.iter().map(|row| row[column]).collect();
        let by_columns = (0..columns.len()).map(line).collect();
        let (mut sum, mut count) = (0.0, 0.0);
        for change in by_rows.iter().flatten() {
            if change.unit.is_finite() {
                sum += change.unit * change.unit;
                count += 1.0;
            }
        }
        Self {
            rows,
            columns,
            by_rows,
            by_columns,
            unit: libm::sqrt(sum / count),
        }
    }

    /// Returns the differences of the sampled elements as a matrix.
    pub fn differences(&self) -> Matrix {
        let values = self
            .by_rows
            .iter()
            .flatten()
            .map(|change| change.difference);
        Matrix {
            columns: self.columns.len(),
            values: values.collect(),
        }
    }

    /// Returns the smallest singular value that rounding alone does not
    /// produce: the largest one of random noise, plus a margin.
    pub fn threshold(&self) -> f64 {
        const MARGIN: f64 = 1.15;
        let root = |count: usize| libm::sqrt(count as f64);
        let noise = self.unit / libm::sqrt(12.0);
        MARGIN * noise * (root(self.rows.len()) + root(self.columns.len()))
    }
}
