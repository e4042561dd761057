//! Eigenvalues of small symmetric matrices, computed with Jacobi rotations in a
//! fixed order.

use alloc::vec::Vec;

use super::matrix::Matrix;

/// The maximum number of sweeps over all pairs; convergence takes six to ten.
const SWEEPS: usize = 16;

/// Returns the eigenvalues of a symmetric matrix in descending order, and its
/// eigenvectors as rows.
pub fn eigen(mut matrix: Matrix) -> (Vec<f64>, Matrix) {
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
