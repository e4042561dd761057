//! Matrices of doubles. All results are computed by single operations in a fixed
//! order.

use alloc::vec;
use alloc::vec::Vec;

use crate::engine::Engine;

/// Number of accumulators of a dot product, which is the number of terms added at
/// once.
const LANES: usize = 8;

/// A matrix in row-major order.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    pub columns: usize,
    pub values: Vec<f64>,
}

impl Matrix {
    pub fn zeros(rows: usize, columns: usize) -> Self {
        Self {
            columns,
            values: vec![0.0; rows * columns],
        }
    }

    pub fn identity(size: usize) -> Self {
        let mut identity = Self::zeros(size, size);
        (0..size).for_each(|i| identity.row_mut(i)[i] = 1.0);
        identity
    }

    pub fn rows(&self) -> usize {
        self.values.len() / self.columns
    }

    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.columns..][..self.columns]
    }

    pub fn row_mut(&mut self, row: usize) -> &mut [f64] {
        &mut self.values[row * self.columns..][..self.columns]
    }

    pub fn transposed(&self) -> Self {
        let rows = self.rows();
        let mut out = Self::zeros(self.columns, rows);
        for (number, row) in self.values.chunks_exact(self.columns).enumerate() {
            for (column, value) in row.iter().enumerate() {
                out.values[column * rows + number] = *value;
            }
        }
        out
    }

    /// Returns the product with `right`, whose rows are short: each row of the
    /// result is a sum of scaled rows of `right`. Rows are computed on all
    /// threads.
    pub fn times<E: Engine>(&self, engine: &E, right: &Self) -> Self {
        let width = right.columns;
        let rows = by_chunks(engine, self.rows(), |row, out| {
            let start = out.len();
            out.resize(start + width, 0.0);
            let sums = &mut out[start..];
            // Adding four rows at once loads and stores each sum a quarter as
            // often.
            let (fours, rest) = self.row(row).as_chunks::<4>();
            for (number, four) in fours.iter().enumerate() {
                let [a, b, c, d] = core::array::from_fn(|i| right.row(4 * number + i));
                let terms = a.iter().zip(b).zip(c).zip(d);
                for (sum, (((a, b), c), d)) in sums.iter_mut().zip(terms) {
                    *sum += (four[0] * a + four[1] * b) + (four[2] * c + four[3] * d);
                }
            }
            for (number, factor) in rest.iter().enumerate() {
                add_scaled(sums, *factor, right.row(4 * fours.len() + number));
            }
        });
        Self {
            columns: width,
            values: rows,
        }
    }

    /// Returns the Gram matrix, the inner products of all pairs of columns.
    pub fn gram(&self) -> Self {
        let mut gram = Self::zeros(self.columns, self.columns);
        for row in self.values.chunks_exact(self.columns) {
            for (number, factor) in row.iter().enumerate() {
                add_scaled(gram.row_mut(number), *factor, row);
            }
        }
        gram
    }
}

/// Runs `job`, which appends the values of one row, for all rows on all threads,
/// and returns all values in order.
pub fn by_chunks<E: Engine>(
    engine: &E,
    rows: usize,
    job: impl Fn(usize, &mut Vec<f64>) + Sync + Send,
) -> Vec<f64> {
    const ROWS: usize = 64;
    let starts = (0..rows).step_by(ROWS).collect();
    let parts = engine.map(starts, |start: usize| {
        let mut out = Vec::new();
        (start..rows.min(start + ROWS)).for_each(|row| job(row, &mut out));
        out
    });
    parts.concat()
}

/// Returns the inner product of two vectors.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; LANES];
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let mut sum =
        ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
    for (a, b) in a_rest.iter().zip(b_rest) {
        sum += a * b;
    }
    sum
}

/// Adds `factor` times `terms` to `sums`.
pub fn add_scaled(sums: &mut [f64], factor: f64, terms: &[f64]) {
    for (sum, term) in sums.iter_mut().zip(terms) {
        *sum += factor * term;
    }
}

/// Orthonormalises the rows with the Gram-Schmidt process, orthogonalising each
/// row twice. A row that is nearly a linear combination of earlier ones becomes
/// zero.
pub fn orthonormalise_rows(matrix: &mut Matrix) {
    for number in 0..matrix.rows() {
        let (done, rest) = matrix.values.split_at_mut(number * matrix.columns);
        let row = &mut rest[..matrix.columns];
        let before = dot(row, row);
        for _ in 0..2 {
            for earlier in done.chunks_exact(row.len()) {
                add_scaled(row, -dot(row, earlier), earlier);
            }
        }
        let after = dot(row, row);
        let scale = if after > before * 1e-24 && after > 0.0 {
            1.0 / libm::sqrt(after)
        } else {
            0.0
        };
        row.iter_mut().for_each(|value| *value *= scale);
    }
}
