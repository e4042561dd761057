//! Hard expectation maximisation (docs/formats/gauss.md 6).

use alloc::vec;
use alloc::vec::Vec;

use super::ordered::Ordered;
use super::{LEAST_DEVIATION, Mixture, sum};
use crate::bytes::index;

/// Share of values that change component below which the fit has settled.
const SETTLED: f64 = 0.001;

/// A mixture and how long it took.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The mixture.
    pub mixture: Mixture,
    /// Rounds of assigning and updating.
    pub iterations: u32,
}

/// Fits `components` Gaussians to `values` in at most `max_iterations`
/// rounds.
///
/// # Panics
/// If there are no values, one of them is NaN, or there are fewer than two
/// components.
#[must_use]
pub fn fit(values: &[f64], components: u8, max_iterations: u32) -> Fit {
    assert!(!values.is_empty(), "nothing to fit");
    assert!(components >= 2, "a mixture has at least two components");
    let ordered = Ordered::new(values);
    let mut mixture = initial(values, &ordered.values, components);
    let mut before = vec![0; values.len()];
    let mut now = vec![0; values.len()];
    let count = as_f64(values.len());
    for iteration in 0..max_iterations {
        ordered.assign(&mixture, &mut now);
        if iteration > 0 {
            let changed = now.iter().zip(&before).filter(|(a, b)| a != b).count();
            if as_f64(changed) / count < SETTLED {
                return Fit {
                    mixture,
                    iterations: iteration + 1,
                };
            }
        }
        update(&mut mixture, values, &now);
        core::mem::swap(&mut before, &mut now);
    }
    Fit {
        mixture,
        iterations: max_iterations,
    }
}

/// Equal weights, equal widths, means at even percentiles (6 step 2).
fn initial(values: &[f64], sorted: &[f64], components: u8) -> Mixture {
    let count = as_f64(values.len());
    let mean = sum::pairwise(values, |value| value) / count;
    let squares = sum::pairwise(values, |value| (value - mean) * (value - mean));
    let deviation = libm::sqrt(squares / count) / f64::from(components);
    let last = f64::from(components - 1);
    let means = (0..components)
        .map(|number| {
            let percent = if number == components - 1 {
                95.0
            } else {
                5.0 + f64::from(number) * (90.0 / last)
            };
            percentile(sorted, percent)
        })
        .collect();
    let many = usize::from(components);
    Mixture {
        weights: vec![1.0 / f64::from(components); many],
        means,
        deviations: vec![deviation.max(LEAST_DEVIATION); many],
    }
}

/// Interpolated between the two nearest, as NumPy does it by default.
fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let position = percent / 100.0 * as_f64(sorted.len() - 1);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // not negative
    let below = index(position as u64).min(sorted.len() - 1);
    let above = (below + 1).min(sorted.len() - 1);
    let part = position - as_f64(below);
    let step = sorted[above] - sorted[below];
    if part < 0.5 {
        sorted[below] + step * part
    } else {
        sorted[above] - step * (1.0 - part)
    }
}

/// Weights, means and deviations of the members (6 step 3c).
fn update(mixture: &mut Mixture, values: &[f64], components: &[u8]) {
    let mut members: Vec<(u64, f64, f64)> = vec![(0, 0.0, 0.0); mixture.len()];
    for (&value, &component) in values.iter().zip(components) {
        let (count, sum, squares) = &mut members[usize::from(component)];
        *count += 1;
        *sum += value;
        *squares += value * value;
    }
    for (number, (count, sum, squares)) in members.into_iter().enumerate() {
        #[allow(clippy::cast_precision_loss)] // far below 2^53
        let count = count as f64;
        mixture.weights[number] = count / as_f64(values.len());
        if count > 0.0 {
            let mean = sum / count;
            let variance = (squares / count - mean * mean).max(0.0);
            mixture.means[number] = mean;
            mixture.deviations[number] = libm::sqrt(variance).max(LEAST_DEVIATION);
        }
    }
}

#[allow(clippy::cast_precision_loss)] // far below 2^53
fn as_f64(count: usize) -> f64 {
    count as f64
}
