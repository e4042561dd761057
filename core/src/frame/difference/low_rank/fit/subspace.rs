//! Finds the largest singular values of a block by randomised range finding.

use super::block::Block;
use super::eigen::eigen;
use super::matrix::{Matrix, orthonormalise_rows};
use super::random::Random;
use crate::engine::Engine;

/// Number of times that the sketch is multiplied by the block and its
/// transpose.
const POWER_ROUNDS: usize = 2;

/// The usual ranks of adapters. A detected rank close to one of them is rounded
/// to it, because the weakest directions of an adapter may be below the noise,
/// and noise may look like a direction.
const USUAL_RANKS: [usize; 14] = [1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256];

/// Returns factors of the block. The number of columns is its rank. Returns
/// `None` if no direction, or more than `max_rank` directions, are above the
/// rounding noise.
///
/// The first matrix has a row for each row of the block, the second one a row
/// for each of its columns.
pub fn factors<E: Engine>(
    engine: &E,
    block: &Block,
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
