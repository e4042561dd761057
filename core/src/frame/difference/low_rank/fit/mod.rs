//! Finds out whether a tensor differs from its base by a matrix of low rank,
//! and determines the factors.
//!
//! Elements next to zero are rounded more finely than large ones and therefore
//! carry more information about the change. Factors from a singular value
//! decomposition are first improved by weighting each element by its precision,
//! and then adjusted until predictions round to the right elements.
//!
//! All sums are computed in a fixed order, and threads only compute independent
//! results, so the outcome is deterministic.
//!
//! In large matrices the factors are determined from a sample of rows and
//! columns, so that the running time grows with the sides of a matrix, not with
//! its area.

use alloc::vec::Vec;

use super::{Factors, LowRank, LowRankHead};
use crate::dtype::Dtype;
use crate::engine::{Engine, PackEngine};
use crate::float::power_of_two;
use crate::{TensorRef, bytes};
use linear_algebra::{Matrix, add_scaled, dot, orthonormalise_rows};

mod linear_algebra;
mod quantise;
mod refine;

/// The smallest side of a matrix that is worth examining.
const MIN_SIDE: usize = 32;
/// The largest rank, and the minimum number of rows and columns per unit of
/// rank. Larger factors cost more than they save.
const MAX_RANK: usize = 128;
const MIN_SIDE_PER_RANK: usize = 5;

/// Returns the low-rank prediction of `current` from `reference`, if apart from
/// rounding they differ by a matrix of low rank and the factors are expected to
/// cost less than they save. Only matrices of bfloat16 and float32 are
/// examined.
///
/// The running time for a large matrix grows with its sides, not with its area,
/// because factors are found on at most 1024 rows and columns and then extended
/// to the others.
#[must_use]
pub fn fit<E: PackEngine>(engine: &E, current: TensorRef, reference: &[u8]) -> Option<LowRank> {
    let dtype = current
        .dtype
        .filter(|d| matches!(d, Dtype::Bf16 | Dtype::F32))?;
    let &[rows, columns] = current.shape else {
        return None;
    };
    let (head_rows, head_columns) = (u32::try_from(rows).ok()?, u32::try_from(columns).ok()?);
    let elements = Elements {
        current: current.bytes,
        base: reference,
        dtype,
        rows: usize::try_from(rows).ok()?,
        columns: usize::try_from(columns).ok()?,
        scale: 1.0,
    };
    let side = elements.rows.min(elements.columns);
    let len = elements
        .rows
        .checked_mul(elements.columns)?
        .checked_mul(dtype.len_bytes()?)?;
    if side < MIN_SIDE || len != current.bytes.len() || len != reference.len() {
        return None;
    }
    let max_rank = MAX_RANK.min(side / MIN_SIDE_PER_RANK);
    let elements = elements.scaled(&spread(elements.rows, 32), &spread(elements.columns, 64))?;
    let width = screen(&elements, max_rank)?;

    let block = SampledBlock::new(engine, &elements);
    let mut factors = linear_algebra::factors(engine, &block, width, max_rank)?;
    refine::refine(engine, &block, &mut factors);
    let factors = quantise::spread_out(engine, factors);
    let left = refine::all_rows(engine, &elements, &block, &factors);
    let scale = quantise::choose(&elements, &block, &left, &factors)?;

    // The right factors compensate for the rounding of the left ones.
    let mut known = Matrix::zeros(0, left.columns);
    let rounded = scale.rounded(0, &left);
    for row in &block.rows {
        known.values.extend_from_slice(rounded.row(*row));
    }
    let right = refine::all_columns(engine, &elements, &block, &known, &factors[1]);

    let left = left.values.iter().map(|&value| scale.integer(0, value));
    let right = right.transposed();
    let right = right.values.iter().map(|&value| scale.integer(1, value));
    let half = i16::try_from(scale.shift / 2).ok()?;
    let head = LowRankHead {
        rank: u16::try_from(factors[0].columns).ok()?,
        bits: scale.bits,
        shifts: [half, i16::try_from(scale.shift - i32::from(half)).ok()?],
        rows: head_rows,
        columns: head_columns,
    };
    head.check(dtype, rows * columns).ok()?;
    Some(LowRank {
        head,
        dtype,
        factors: Factors::new(left.chain(right).collect(), &head),
    })
}

/// The maximum number of sampled rows and columns.
const MAX_LINES: usize = 1024;

/// The changes of the elements at the intersections of sampled rows and
/// columns.
struct SampledBlock {
    pub rows: Vec<usize>,
    pub columns: Vec<usize>,
    pub by_rows: Vec<Vec<Change>>,
    pub by_columns: Vec<Vec<Change>>,
    /// The root mean square of the elements' units in the last place.
    pub unit: f64,
}

impl SampledBlock {
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

/// Two tensors of equal dtype and shape.
#[derive(Debug, Clone, Copy)]
struct Elements<'a> {
    pub current: &'a [u8],
    pub base: &'a [u8],
    pub dtype: Dtype,
    pub rows: usize,
    pub columns: usize,
    /// Differences and units are multiplied by this power of two, so that the
    /// mean unit is about 1.
    pub scale: f64,
}

/// The difference of an element from the base, and the unit in the last place
/// of its value.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Change {
    pub difference: f64,
    /// Infinite if one of the values is not finite, so that the element carries
    /// no weight.
    pub unit: f64,
}

impl Elements<'_> {
    /// Returns the bits of an element of both tensors, converted to float32.
    pub fn bits(&self, at: usize) -> [u32; 2] {
        let read = |bytes: &[u8]| match self.dtype {
            Dtype::F32 => {
                let bytes = bytes[4 * at..].first_chunk().expect("an element");
                u32::from_le_bytes(*bytes)
            }
            _ => {
                let bytes = bytes[2 * at..].first_chunk().expect("an element");
                u32::from(u16::from_le_bytes(*bytes)) << 16
            }
        };
        [read(self.current), read(self.base)]
    }

    /// Sets the scale from the units of these elements. Returns `None` if no
    /// element is finite.
    pub fn scaled(mut self, rows: &[usize], columns: &[usize]) -> Option<Self> {
        let (mut sum, mut count) = (0.0, 0.0);
        for row in rows {
            for column in columns {
                let unit = self.change(row * self.columns + column).unit;
                if unit.is_finite() {
                    sum += unit;
                    count += 1.0;
                }
            }
        }
        let mean: f64 = sum / count;
        if !mean.is_finite() {
            return None;
        }
        // The power of two with the negated exponent of the mean.
        self.scale = f64::from_bits((2046 << 52) - (mean.to_bits() >> 52 << 52));
        Some(self)
    }

    /// Returns the changes of one row in the given columns.
    pub fn row(&self, row: usize, columns: &[usize]) -> Vec<Change> {
        let start = row * self.columns;
        let changes = columns.iter().map(|column| self.change(start + column));
        changes.collect()
    }

    /// Returns the changes of one column in the given rows.
    pub fn column(&self, column: usize, rows: &[usize]) -> Vec<Change> {
        let changes = rows
            .iter()
            .map(|row| self.change(row * self.columns + column));
        changes.collect()
    }

    /// Returns the change of the element at index `at`.
    pub fn change(&self, at: usize) -> Change {
        let [current, base] = self.bits(at);
        let field = |bits: u32| i32::from(u8::try_from(bits >> 23 & 255).expect("eight bits"));
        let exponent = field(current);
        if exponent == 255 || field(base) == 255 {
            return Change {
                difference: 0.0,
                unit: f64::INFINITY,
            };
        }
        let mantissa_bits = if self.dtype == Dtype::F32 { 23 } else { 7 };
        let value = |bits| f64::from(f32::from_bits(bits));
        Change {
            difference: (value(current) - value(base)) * self.scale,
            unit: power_of_two(exponent.max(1) - 127 - mantissa_bits) * self.scale,
        }
    }
}

/// Returns at most `count` evenly spaced numbers below `len`.
fn spread(len: usize, count: usize) -> Vec<usize> {
    if len <= count {
        return (0..len).collect();
    }
    let place = |number| bytes::index(number * len as u64 / count as u64);
    (0..count as u64).map(place).collect()
}

/// Number of rows whose directions are compared.
const ROWS: usize = 32;
/// Number of columns that are used for this comparison.
const COLUMNS: usize = 512;
/// Number of rows, the probes, that are approximated by combinations of other
/// rows.
const PROBES: usize = 8;
/// Number of rows that each step adds to the rows that approximate the probes.
const STEP: usize = 16;
/// Changes are clear if their energy is at least this multiple of the rounding
/// energy. Only then does the number of rows that explain the others reveal the
/// rank.
const CLEAR: f64 = 6.0;
/// The largest rank that is considered if changes are not clear.
const FAINT_RANK: usize = 32;
/// The probes count as explained if their residual energy is at most this
/// multiple of the rounding energy, and at most this fraction of their whole
/// energy or 1.5 times the rounding energy, whichever is more.
const EXPLAINED: f64 = 6.0;
const EXPLAINED_SHARE: f64 = 1.0 / 3.0;
/// The fraction by which a step may explain less than it would if all
/// directions had equal weight.
const SLACK: f64 = 0.05;

/// Returns the number of columns of a sketch that is likely to capture the
/// change, or `None` if the change, apart from rounding, does not appear to
/// have a rank of at most `max_rank`.
fn screen(elements: &Elements, max_rank: usize) -> Option<usize> {
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

/// The changes of the elements at the intersections of some rows and columns.
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

/// Approximates some of the rows by linear combinations of more and more of the
/// others, and returns the number of directions that suffice. Returns `None` if
/// the rank appears to exceed `max_rank`.
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
