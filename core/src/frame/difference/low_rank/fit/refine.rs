//! Improves factors row by row and column by column: fits the factors of one
//! row or column, given the factors of all lines that it crosses.

use alloc::vec;
use alloc::vec::Vec;

use super::linear_algebra::{Matrix, by_chunks, dot, eigen};
use super::{Change, Elements, SampledBlock};
use crate::engine::Engine;

/// Number of rounds of least squares, and of corrections of elements that are
/// predicted wrongly.
const FIT_ROUNDS: usize = 2;
const CORRECTION_ROUNDS: usize = 4;
/// Number of corrections of a line outside the block.
const LATE_CORRECTIONS: usize = 2;

/// Improves the factors of a block.
pub(crate) fn refine<E: Engine>(engine: &E, block: &SampledBlock, factors: &mut [Matrix; 2]) {
    for round in 0..FIT_ROUNDS + CORRECTION_ROUNDS {
        let [left, right] = factors;
        let fit = round < FIT_ROUNDS;
        *left = improved(
            engine,
            &block.by_rows,
            left,
            &Crossing::new(right, block.unit),
            fit,
        );
        *right = improved(
            engine,
            &block.by_columns,
            right,
            &Crossing::new(left, block.unit),
            fit,
        );
        balance(engine, factors);
    }
}

fn improved<E: Engine>(
    engine: &E,
    lines: &[Vec<Change>],
    factors: &Matrix,
    crossing: &Crossing,
    fit: bool,
) -> Matrix {
    let values = by_chunks(engine, lines.len(), |number, out| {
        let start = out.len();
        out.extend_from_slice(factors.row(number));
        if fit {
            crossing.fit(&lines[number], &mut out[start..]);
        } else {
            crossing.correct(&lines[number], &mut out[start..]);
        }
    });
    Matrix {
        columns: factors.columns,
        values,
    }
}

/// Extends the left factors of the block to all rows of the matrix.
pub(crate) fn all_rows<E: Engine>(
    engine: &E,
    elements: &Elements,
    block: &SampledBlock,
    factors: &[Matrix; 2],
) -> Matrix {
    let crossing = Crossing::new(&factors[1], block.unit);
    let line = |row| elements.row(row, &block.columns);
    extended(
        engine,
        elements.rows,
        &block.rows,
        &factors[0],
        &crossing,
        line,
    )
}

/// Extends the right factors of the block to all columns of the matrix, for the
/// left factors `left`, which differ from those that the block was fitted with.
pub(crate) fn all_columns<E: Engine>(
    engine: &E,
    elements: &Elements,
    block: &SampledBlock,
    left: &Matrix,
    right: &Matrix,
) -> Matrix {
    let crossing = Crossing::new(left, block.unit);
    let line = |column| elements.column(column, &block.rows);
    let mut right = extended(
        engine,
        elements.columns,
        &block.columns,
        right,
        &crossing,
        line,
    );
    if right.rows() == block.columns.len() {
        for _ in 0..LATE_CORRECTIONS {
            right = improved(engine, &block.by_columns, &right, &crossing, false);
        }
    }
    right
}

fn extended<E: Engine>(
    engine: &E,
    count: usize,
    known: &[usize],
    factors: &Matrix,
    crossing: &Crossing,
    line: impl Fn(usize) -> Vec<Change> + Sync + Send,
) -> Matrix {
    if count == known.len() {
        return factors.clone();
    }
    let rank = factors.columns;
    let values = by_chunks(engine, count, |number, out| {
        let start = out.len();
        let line = line(number);
        if let Ok(place) = known.binary_search(&number) {
            out.extend_from_slice(factors.row(place));
        } else {
            out.resize(start + rank, 0.0);
            crossing.fit(&line, &mut out[start..]);
        }
        for _ in 0..LATE_CORRECTIONS {
            if crossing.correct(&line, &mut out[start..]) == 0 {
                break;
            }
        }
    });
    Matrix {
        columns: rank,
        values,
    }
}

/// Transforms the factors without changing their product, so that both have
/// orthogonal columns and corresponding columns have equal lengths.
fn balance<E: Engine>(engine: &E, factors: &mut [Matrix; 2]) {
    let rank = factors[0].columns;
    let mut root = factors[0].gram().values;
    if !cholesky(&mut root, rank) {
        return;
    }
    let mut lower = Matrix::zeros(rank, rank);
    for row in 0..rank {
        lower.row_mut(row)[..=row].copy_from_slice(&root[row * rank..][..=row]);
    }
    // L^T (B^T B) L = W D W^T, for A^T A = L L^T.
    let turned = factors[1].times(engine, &lower);
    let (squares, vectors) = eigen(turned.gram());
    let mut left = Matrix::zeros(rank, rank);
    let mut right = Matrix::zeros(rank, rank);
    for (number, square) in squares.iter().enumerate() {
        if square.is_nan() || *square <= 0.0 {
            return;
        }
        let quarter = libm::sqrt(libm::sqrt(*square));
        // Computes L^-T w by back substitution.
        let mut column = vectors.row(number).to_vec();
        for row in (0..rank).rev() {
            let value = column[row] / lower.row(row)[row];
            column[row] = value;
            let line = &lower.row(row)[..row];
            column[..row]
                .iter_mut()
                .zip(line)
                .for_each(|(c, l)| *c -= value * l);
        }
        for (row, value) in column.iter().enumerate() {
            left.row_mut(row)[number] = value * quarter;
            right.row_mut(row)[number] = dot(lower.row(row), vectors.row(number)) / quarter;
        }
    }
    *factors = [
        factors[0].times(engine, &left),
        factors[1].times(engine, &right),
    ];
}

/// An error of this many mean units does not matter even if an element is
/// rounded more finely. Without this limit, the few elements next to zero would
/// outweigh all others.
const TOLERANCE: f64 = 0.05;

/// A prediction should lie within this inner fraction of the element's rounding
/// interval.
const INNER: f64 = 0.8;

/// The amount added to the diagonal of the normal equations, relative to the
/// mean of the diagonal; the second value applies if few elements contribute.
const RIDGE: f64 = 1e-6;
const RIDGE_OF_FEW: f64 = 0.03;

/// The factors of the lines that cross a line to be fitted.
pub struct Crossing<'a> {
    pub others: &'a Matrix,
    single: Vec<f32>,
    tolerance: f64,
    /// The maximum number of elements of a line that contribute to a fit.
    most: usize,
}

/// Buffers for fitting a line.
#[derive(Default)]
struct Scratch {
    chosen: Vec<(usize, f32)>,
    normal: Vec<f32>,
    gradient: Vec<f64>,
}

impl<'a> Crossing<'a> {
    pub fn new(others: &'a Matrix, unit: f64) -> Self {
        #[allow(clippy::cast_possible_truncation)] // precise enough for repeated steps
        let single = others.values.iter().map(|&value| value as f32).collect();
        Self {
            others,
            single,
            tolerance: TOLERANCE * unit,
            most: (12 * others.columns).max(256),
        }
    }

    /// Moves `factors` to the weighted least-squares solution of a line. The
    /// weight of an element depends on the precision of its value.
    pub fn fit(&self, line: &[Change], factors: &mut [f64]) {
        let rank = factors.len();
        let mut scratch = Scratch::default();
        let finest = self.finest(line);
        scratch.gradient.resize(rank, 0.0);
        for (number, change) in line.iter().enumerate() {
            if change.unit <= finest {
                let error = change.difference - dot(factors, self.others.row(number));
                self.add(&mut scratch, number, change.unit, error);
            }
        }
        self.step(&mut scratch, RIDGE, factors);
    }

    /// Moves `factors` towards values that predict every element of a line, and
    /// returns the number of elements that were not predicted before.
    pub fn correct(&self, line: &[Change], factors: &mut [f64]) -> usize {
        let rank = factors.len();
        let mut scratch = Scratch::default();
        scratch.gradient.resize(rank, 0.0);
        for (number, change) in line.iter().enumerate() {
            let error = change.difference - dot(factors, self.others.row(number));
            let excess = error.abs() - INNER * 0.5 * change.unit;
            if excess > 0.0 {
                let error = if error < 0.0 { -excess } else { excess };
                self.add(&mut scratch, number, change.unit, error);
            }
        }
        self.step(&mut scratch, RIDGE_OF_FEW, factors);
        scratch.chosen.len()
    }

    /// Returns the largest unit among the elements that contribute to a fit.
    fn finest(&self, line: &[Change]) -> f64 {
        if line.len() <= self.most {
            return f64::MAX;
        }
        let mut units: Vec<f64> = line.iter().map(|change| change.unit).collect();
        let (_, unit, _) = units.select_nth_unstable_by(self.most - 1, f64::total_cmp);
        unit.min(f64::MAX)
    }

    fn add(&self, scratch: &mut Scratch, number: usize, unit: f64, error: f64) {
        let tolerance = self.tolerance * self.tolerance;
        let weight = tolerance / (unit * unit + tolerance);
        let pairs = scratch.gradient.iter_mut().zip(self.others.row(number));
        for (sum, other) in pairs {
            *sum += weight * error * other;
        }
        #[allow(clippy::cast_possible_truncation)] // precise enough for repeated steps
        scratch.chosen.push((number, weight as f32));
    }

    /// Solves the normal equations of the added elements.
    fn step(&self, scratch: &mut Scratch, ridge: f64, factors: &mut [f64]) {
        let rank = factors.len();
        if scratch.chosen.is_empty() {
            return;
        }
        scratch.normal.resize(rank * rank, 0.0);
        for four in scratch.chosen.chunks(4) {
            let entry = |i: usize| four.get(i).copied().unwrap_or((0, 0.0));
            let rows: [&[f32]; 4] =
                core::array::from_fn(|i| &self.single[entry(i).0 * rank..][..rank]);
            let weights: [f32; 4] = core::array::from_fn(|i| entry(i).1);
            for number in 0..rank {
                // A row of the lower triangle, extended to a multiple of eight
                // values.
                let len = rank.min(number / 8 * 8 + 8);
                let [a, b, c, d] = core::array::from_fn(|i| weights[i] * rows[i][number]);
                let sums = scratch.normal[number * rank..][..len].iter_mut();
                let terms = rows[0][..len].iter().zip(&rows[1][..len]);
                let terms = terms.zip(rows[2][..len].iter().zip(&rows[3][..len]));
                for (sum, ((s, t), (u, v))) in sums.zip(terms) {
                    *sum += (a * s + b * t) + (c * u + d * v);
                }
            }
        }
        let mut lower: Vec<f64> = scratch.normal.iter().map(|&v| f64::from(v)).collect();
        let trace: f64 = (0..rank).map(|i| lower[i * rank + i]).sum();
        let more = ridge * trace / rank as f64;
        (0..rank).for_each(|i| lower[i * rank + i] += more);
        if cholesky(&mut lower, rank) {
            let step = solve(&lower, &scratch.gradient);
            factors.iter_mut().zip(step).for_each(|(f, s)| *f += s);
        }
    }
}

/// Replaces the lower triangle of a symmetric matrix by its Cholesky factor.
/// Returns `false` if the matrix is not positive definite.
pub(crate) fn cholesky(matrix: &mut [f64], size: usize) -> bool {
    for row in 0..size {
        let (done, rest) = matrix.split_at_mut(row * size);
        let current = &mut rest[..size];
        for column in 0..row {
            let other = &done[column * size..][..size];
            let sum = current[column] - dot(&current[..column], &other[..column]);
            current[column] = sum / other[column];
        }
        let left = current[row] - dot(&current[..row], &current[..row]);
        if !(left > 0.0 && left.is_finite()) {
            return false;
        }
        current[row] = libm::sqrt(left);
    }
    true
}

/// Solves a linear system, given the Cholesky factor of its matrix.
fn solve(root: &[f64], right: &[f64]) -> Vec<f64> {
    let size = right.len();
    let mut out = vec![0.0; size];
    for row in 0..size {
        let line = &root[row * size..][..size];
        out[row] = (right[row] - dot(&line[..row], &out[..row])) / line[row];
    }
    for row in (0..size).rev() {
        out[row] /= root[row * size + row];
        let value = out[row];
        let line = &root[row * size..][..row];
        out[..row]
            .iter_mut()
            .zip(line)
            .for_each(|(o, l)| *o -= value * l);
    }
    out
}
