//! Matrices of doubles: products, eigenvalues of small symmetric matrices, reproducible
//! pseudo-random matrices, and the largest singular values of a block, by randomised
//! range finding. All results are computed by single operations in a fixed order.

use alloc::vec;
use alloc::vec::Vec;

use super::SampledBlock;
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

    pub(crate) fn row_mut(&mut self, row: usize) -> &mut [f64] {
        &mut self.values[row * self.columns..][..self.columns]
    }

    pub(crate) fn transposed(&self) -> Self {
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
    pub(crate) fn gram(&self) -> Self {
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
pub(crate) fn by_chunks<E: Engine>(
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
pub(crate) fn add_scaled(sums: &mut [f64], factor: f64, terms: &[f64]) {
    for (sum, term) in sums.iter_mut().zip(terms) {
        *sum += factor * term;
    }
}

/// Orthonormalises the rows with the Gram-Schmidt process, orthogonalising each
/// row twice. A row that is nearly a linear combination of earlier ones becomes
/// zero.
pub(crate) fn orthonormalise_rows(matrix: &mut Matrix) {
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

/// The maximum number of sweeps of Jacobi rotations over all pairs of rows. Usually, six
/// to ten sweeps suffice.
const SWEEPS: usize = 16;

/// Returns the eigenvalues of a symmetric matrix in descending order, and its
/// eigenvectors as rows.
pub(crate) fn eigen(mut matrix: Matrix) -> (Vec<f64>, Matrix) {
    let size = matrix.columns;
    let mut vectors = Matrix::identity(size);
    for _ in 0..SWEEPS {
        let mut rotated = false;
        for p in 0..size {
            for q in p + 1..size {
                let (a, b) = (matrix.row(p)[p], matrix.row(q)[q]);
                let off = matrix.row(p)[q];
                if off * off <= 1e-30 * (a * b).abs() || off == 0.0 {
                    continue;
                }
                rotated = true;
                let theta = (b - a) / (2.0 * off);
                let root = libm::sqrt(theta * theta + 1.0);
                let tangent = if theta >= 0.0 {
                    1.0 / (theta + root)
                } else {
                    1.0 / (theta - root)
                };
                let cosine = 1.0 / libm::sqrt(tangent * tangent + 1.0);
                let sine = tangent * cosine;
                rotate(&mut matrix, p, q, cosine, sine);
                rotate(&mut vectors, p, q, cosine, sine);
                // The columns are rotated in the same way as the rows above.
                for row in matrix.values.chunks_exact_mut(size) {
                    let (x, y) = (row[p], row[q]);
                    row[p] = cosine * x - sine * y;
                    row[q] = sine * x + cosine * y;
                }
                matrix.row_mut(p)[q] = 0.0;
                matrix.row_mut(q)[p] = 0.0;
            }
        }
        if !rotated {
            break;
        }
    }
    let mut order: Vec<usize> = (0..size).collect();
    order.sort_by(|&a, &b| matrix.row(b)[b].total_cmp(&matrix.row(a)[a]));
    let values = order.iter().map(|&i| matrix.row(i)[i]).collect();
    let mut sorted = Matrix::zeros(size, size);
    for (to, &from) in order.iter().enumerate() {
        sorted.row_mut(to).copy_from_slice(vectors.row(from));
    }
    (values, sorted)
}

fn rotate(matrix: &mut Matrix, p: usize, q: usize, cosine: f64, sine: f64) {
    let size = matrix.columns;
    let (upper, lower) = matrix.values.split_at_mut(q * size);
    let pairs = upper[p * size..][..size].iter_mut().zip(lower);
    for (x, y) in pairs {
        (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
    }
}

/// A generator of pseudo-random numbers with a fixed seed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new() -> Self {
        Self(0x243F_6A88_85A3_08D3)
    }

    /// Returns a matrix of values between -1 and 1.
    pub fn matrix(&mut self, rows: usize, columns: usize) -> Matrix {
        let mut matrix = Matrix::zeros(rows, columns);
        matrix.values.fill_with(|| self.value());
        matrix
    }

    fn value(&mut self) -> f64 {
        // A Weyl sequence, mixed by two multiplications.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        let bytes = (mixed ^ mixed >> 31).to_le_bytes();
        f64::from(i16::from_le_bytes([bytes[0], bytes[1]])) / 32768.0
    }
}

/// Number of times that the sketch is multiplied by the block and its
/// transpose.
const POWER_ROUNDS: usize = 2;

/// The usual ranks of adapters. A detected rank close to one of them is rounded
/// to it, because the weakest directions of an adapter may be below the noise,
/// and noise may look like a direction.
const USUAL_RANKS: [usize; 14] = [1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256];

/// Returns two factors whose product, the first times the transpose of the second,
/// approximates the differences in the block. The first has a row for each row of
/// the block, the second a row for each of its columns. Both have as many columns
/// as the detected rank, which is rounded to a nearby usual one.
///
/// `width` is the number of directions that are computed. Returns `None` if none of
/// them, or more than `max_rank`, are above the rounding noise, or if all of them
/// are and the block may have more.
pub fn factors<E: Engine>(
    engine: &E,
    block: &SampledBlock,
    width: usize,
    max_rank: usize,
) -> Option<[Matrix; 2]> {
    let matrix = block.differences();
    let transposed = matrix.transposed();
    let width = width.min(matrix.rows()).min(matrix.columns);
    let mut sketch = Random::new().matrix(matrix.columns, width);
    let mut range = Matrix::zeros(0, 1);
    for round in 0..=POWER_ROUNDS {
        range = orthonormal(&matrix.times(engine, &sketch));
        if round < POWER_ROUNDS {
            sketch = orthonormal(&transposed.times(engine, &range));
        }
    }
    // The projection of the block onto the range, transposed.
    let projected = transposed.times(engine, &range);
    let (squares, vectors) = eigen(projected.gram());
    let threshold = block.threshold();
    let above = squares
        .iter()
        .filter(|&&s| s > threshold * threshold)
        .count();
    let most = max_rank.min(width);
    if above == 0 || above > most || (above == width && width < matrix.rows().min(matrix.columns)) {
        return None;
    }
    let rank = before_gap(&squares[..=above.min(width - 1)], threshold * threshold);
    let rank = usual(rank.unwrap_or(above)).min(most);
    let mut turn = Matrix::zeros(width, rank);
    for (to, value) in turn.values.chunks_exact_mut(rank).enumerate() {
        (0..rank).for_each(|number| value[number] = vectors.row(number)[to]);
    }
    let mut left = range.times(engine, &turn);
    let mut right = projected.times(engine, &turn);
    for (number, square) in squares[..rank].iter().enumerate() {
        // Both factors get the square root of the singular value.
        let root = libm::sqrt(libm::sqrt(square.max(f64::MIN_POSITIVE)));
        left.values
            .iter_mut()
            .skip(number)
            .step_by(rank)
            .for_each(|v| *v *= root);
        right
            .values
            .iter_mut()
            .skip(number)
            .step_by(rank)
            .for_each(|v| *v /= root);
    }
    Some([left, right])
}

/// Returns the number of singular values before the first drop to less than a
/// quarter that ends below twice the threshold. After such a drop, values above
/// the threshold may still come from the rounding of unequal rows.
fn before_gap(squares: &[f64], threshold: f64) -> Option<usize> {
    let falls = |pair: &[f64]| pair[0] > 16.0 * pair[1] && pair[1] < 4.0 * threshold;
    Some(1 + squares.windows(2).position(falls)?)
}

/// Returns a usual rank `u` with `rank` between 5/6 and 9/8 of `u`, or `rank`
/// if there is none.
fn usual(rank: usize) -> usize {
    let near = |usual: &&usize| rank * 6 >= **usual * 5 && rank * 8 <= **usual * 9;
    USUAL_RANKS.iter().find(near).copied().unwrap_or(rank)
}

/// Makes the columns orthonormal.
fn orthonormal(matrix: &Matrix) -> Matrix {
    let mut rows = matrix.transposed();
    orthonormalise_rows(&mut rows);
    rows.transposed()
}
