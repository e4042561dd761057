//! Fits the factors of one row or column, given the factors of all lines that
//! it crosses.

use alloc::vec;
use alloc::vec::Vec;

use super::elements::Change;
use super::matrix::{Matrix, dot};

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

/// The factors of the crossing lines.
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
                // The lower triangle, plus up to seven values.
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
pub fn cholesky(matrix: &mut [f64], size: usize) -> bool {
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
