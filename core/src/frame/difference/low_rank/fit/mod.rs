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

mod block;
mod cost;
mod eigen;
mod elements;
mod line;
mod matrix;
mod quantise;
mod random;
mod refine;
mod screen;
mod subspace;

use super::factors::Factors;
use super::{Head, LowRank};
use crate::TensorRef;
use crate::dtype::Dtype;
use crate::engine::PackEngine;
use block::Block;
use elements::{Elements, spread};

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
    let width = screen::screen(&elements, max_rank)?;

    let block = Block::new(engine, &elements);
    let mut factors = subspace::factors(engine, &block, width, max_rank)?;
    refine::refine(engine, &block, &mut factors);
    let factors = quantise::spread_out(engine, factors);
    let left = refine::all_rows(engine, &elements, &block, &factors);
    let scale = quantise::choose(&elements, &block, &left, &factors)?;

    // The right factors compensate for the rounding of the left ones.
    let mut known = matrix::Matrix::zeros(0, left.columns);
    let rounded = scale.rounded(0, &left);
    for row in &block.rows {
        known.values.extend_from_slice(rounded.row(*row));
    }
    let right = refine::all_columns(engine, &elements, &block, &known, &factors[1]);

    let left = left.values.iter().map(|&value| scale.integer(0, value));
    let right = right.transposed();
    let right = right.values.iter().map(|&value| scale.integer(1, value));
    let half = i16::try_from(scale.shift / 2).ok()?;
    let head = Head {
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
