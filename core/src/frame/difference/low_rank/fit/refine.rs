//! Improves factors row by row and column by column.

use alloc::vec::Vec;

use super::block::Block;
use super::eigen::eigen;
use super::elements::{Change, Elements};
use super::line::{Crossing, cholesky};
use super::matrix::{Matrix, by_chunks, dot};
use crate::engine::Engine;

/// Number of rounds of least squares, and of corrections of elements that are
/// predicted wrongly.
const FIT_ROUNDS: usize = 2;
const CORRECTION_ROUNDS: usize = 4;
/// Number of corrections of a line outside the block.
const LATE_CORRECTIONS: usize = 2;

/// Improves the factors of a block.
pub fn refine<E: Engine>(engine: &E, block: &Block, factors: &mut [Matrix; 2]) {
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
pub fn all_rows<E: Engine>(
    engine: &E,
    elements: &Elements,
    block: &Block,
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
pub fn all_columns<E: Engine>(
    engine: &E,
    elements: &Elements,
    block: &Block,
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
