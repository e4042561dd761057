//! Sums in NumPy's order (docs/formats/gauss.md 8.1), because the result of a
//! floating-point sum depends on it.

/// Length of the longest range that is not split into halves.
const STRETCH: usize = 128;

/// Returns the mean and the population deviation, computed in two passes.
pub fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    #[allow(clippy::cast_precision_loss)] // far below 2^53
    let count = values.len() as f64;
    let mean = pairwise(values, |value| value) / count;
    let squares = pairwise(values, |value| (value - mean) * (value - mean));
    (mean, libm::sqrt(squares / count))
}

/// Returns the pairwise sum of `term` applied to every value.
pub fn pairwise(values: &[f64], term: impl Fn(f64) -> f64 + Copy) -> f64 {
    if values.len() > STRETCH {
        let half = values.len() / 2 / 8 * 8;
        let (first, rest) = values.split_at(half);
        return pairwise(first, term) + pairwise(rest, term);
    }
    let (eights, rest) = values.as_chunks::<8>();
    let Some((first, more)) = eights.split_first() else {
        return rest.iter().fold(0.0, |sum, &value| sum + term(value));
    };
    let mut lanes = first.map(term);
    for eight in more {
        for (lane, &value) in lanes.iter_mut().zip(eight) {
            *lane += term(value);
        }
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    let lanes = ((a + b) + (c + d)) + ((e + f) + (g + h));
    rest.iter().fold(lanes, |sum, &value| sum + term(value))
}
