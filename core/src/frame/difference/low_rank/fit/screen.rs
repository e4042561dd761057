//! Quickly examines a few rows, because most changed tensors did not change by
//! a matrix of low rank.

use alloc::vec::Vec;

use super::linear_algebra::{Matrix, add_scaled, dot, orthonormalise_rows};
use super::{Elements, spread};

/// Number of rows whose directions are compared.
const ROWS: usize = 32;
/// Number of columns that are used for this comparison.
const COLUMNS: usize = 512;
/// Number of rows that are explained by other rows.
const PROBES: usize = 8;
/// Number of rows that each step adds to explain the probes.
const STEP: usize = 16;
/// Changes are clear if their energy is at least this multiple of the rounding
/// energy. Only then do rows that explain others reveal the rank.
const CLEAR: f64 = 6.0;
/// The largest rank that is considered if changes are not clear.
const FAINT_RANK: usize = 32;
/// The probes count as explained if their residual energy is at most this
/// multiple of the rounding energy, and at most this fraction of their whole
/// energy or 1.5 times the rounding energy, whichever is more.
const EXPLAINED: f64 = 6.0;
const EXPLAINED_SHARE: f64 = 1.0 / 3.0;
/// A step may explain less than it would if all directions had equal weight, by
/// this fraction.
const SLACK: f64 = 0.05;

/// Returns the number of columns of a sketch that is likely to capture the
/// change, or `None` if the change, apart from rounding, does not appear to
/// have a rank of at most `max_rank`.
pub(crate) fn screen(elements: &Elements, max_rank: usize) -> Option<usize> {
    let columns = spread(elements.columns, COLUMNS);
    let sample = Sample::new(elements, &spread(elements.rows, ROWS), &columns);
    let clear = sample.energy >= CLEAR * sample.noise;
    let max_rank = if clear {
        max_rank
    } else {
        max_rank.min(FAINT_RANK)
    };
    let signal = 1.0 - sample.noise / sample.energy;
    if !(sample.energy > 0.0 && sample.directions_are_few(signal.max(0.2), max_rank)) {
        return None;
    }
    if !clear {
        return Some(max_rank + STEP / 2);
    }
    let rows = spread(elements.rows, max_rank + STEP + PROBES);
    let columns = spread(elements.columns, max_rank + 4 * STEP);
    explained(elements, &rows, &columns, max_rank)
}

/// The changes of some rows in some columns.
struct Sample {
    rows: Matrix,
    /// Mean energy of an element, and the energy expected from rounding.
    energy: f64,
    noise: f64,
}

impl Sample {
    fn new(elements: &Elements, rows: &[usize], columns: &[usize]) -> Self {
        let mut values = Vec::with_capacity(rows.len() * columns.len());
        let (mut energy, mut noise) = (0.0, 0.0);
        for row in rows {
            for column in columns {
                let change = elements.change(row * elements.columns + column);
                values.push(change.difference);
                energy += change.difference * change.difference;
                if change.unit.is_finite() {
                    noise += change.unit * change.unit / 12.0;
                }
            }
        }
        let count = values.len() as f64;
        Self {
            rows: Matrix {
                columns: columns.len(),
                values,
            },
            energy: energy / count,
            noise: noise / count,
        }
    }

    /// Returns whether the rows point in few directions, by comparing all pairs
    /// of rows. In n dimensions, the cosines of random directions have a mean
    /// square of 1/n.
    fn directions_are_few(&self, signal: f64, max_rank: usize) -> bool {
        let rows: Vec<_> = self.rows.values.chunks_exact(self.rows.columns).collect();
        let squares: Vec<f64> = rows.iter().map(|row| dot(row, row)).collect();
        let (mut sum, mut count) = (0.0, 0.0);
        for a in 0..rows.len() {
            for b in 0..a {
                if squares[a] > 0.0 && squares[b] > 0.0 {
                    let product = dot(rows[a], rows[b]);
                    sum += product * product / (squares[a] * squares[b]);
                    count += 1.0;
                }
            }
        }
        let excess: f64 = sum / count - 1.0 / self.rows.columns as f64;
        excess * (3 * max_rank) as f64 > signal * signal
    }
}

/// Explains some of the rows by more and more of the others, and returns the
/// number of directions that suffice.
fn explained(
    elements: &Elements,
    rows: &[usize],
    columns: &[usize],
    max_rank: usize,
) -> Option<usize> {
    // The probes are evenly spaced, so they come from all parts of the matrix.
    let apart = rows.len() / PROBES;
    let (probes, basis): (Vec<_>, Vec<_>) =
        (0..rows.len()).partition(|number| apart > 0 && number % apart == 0);
    let rows_of = |numbers: &[usize]| -> Vec<usize> { numbers.iter().map(|&n| rows[n]).collect() };
    let sample = Sample::new(elements, &rows_of(&probes), columns);
    let mut probes = sample.rows.values;
    let whole = dot(&probes, &probes);
    let noise = sample.noise * probes.len() as f64;
    let explained = (EXPLAINED * noise).min((EXPLAINED_SHARE * whole).max(1.5 * noise));
    let mut before = whole - noise;
    // The rows added so far, orthonormalised.
    let mut known = Vec::new();
    for numbers in basis.chunks(STEP) {
        let mut step = Sample::new(elements, &rows_of(numbers), columns).rows;
        for row in step.values.chunks_exact_mut(columns.len()) {
            subtract(row, &known);
        }
        orthonormalise_rows(&mut step);
        for probe in probes.chunks_exact_mut(columns.len()) {
            subtract(probe, &step.values);
        }
        known.append(&mut step.values);
        let end = known.len() / columns.len();
        let left = dot(&probes, &probes);
        if left <= explained {
            return Some(end + STEP / 2);
        }
        // If the `n` remaining directions have equal weight, a step explains
        // its share of them; if the weights differ, it explains more.
        let most = (max_rank.max(end) - end) as f64;
        let share = most / (most + STEP as f64);
        if left - noise > before * (share + SLACK) {
            return None;
        }
        before = left - noise;
    }
    None
}

/// Makes a row orthogonal to orthonormal ones.
fn subtract(row: &mut [f64], others: &[f64]) {
    for other in others.chunks_exact(row.len()) {
        add_scaled(row, -dot(row, other), other);
    }
}
