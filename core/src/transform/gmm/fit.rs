//! Hard expectation maximisation (docs/formats/gauss.md 6).

use alloc::vec;
use alloc::vec::Vec;

use super::cells::{Cells, Winners};
use super::grouped::Grouped;
use super::{MIN_DEVIATION, Mixture, sum};
use crate::bytes::index;

/// The fit has converged if less than this fraction of values change component.
const SETTLED: f64 = 0.001;

/// A fitted mixture.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The components after the last round.
    pub mixture: Mixture,
    /// Number of rounds of assigning and updating.
    pub iterations: u32,
}

/// Fits `components` Gaussians to `values` in at most `max_iterations` rounds.
/// The result is identical to the last bit to that of the Python
/// implementation.
///
/// # Panics
/// If there are no values, one of them is NaN, or there are fewer than two
/// components.
#[must_use]
pub fn fit(values: &[f64], components: u8, max_iterations: u32) -> Fit {
    let (mean, deviation) = sum::mean_and_deviation(values);
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let mixture = initial(&sorted, deviation, components);
    let cells = Cells::new(mean, deviation);
    let numbers: Vec<u16> = values.iter().map(|value| cells.find(*value)).collect();
    let mut assigned = vec![0; values.len()];
    let round = |winners: &Winners, members: &mut [Members]| {
        let mut changed = 0usize;
        for ((&value, &cell), assigned) in values.iter().zip(&numbers).zip(&mut assigned) {
            let component = winners.find(value, cell);
            changed += usize::from(component != *assigned);
            *assigned = component;
            members[usize::from(component)].add(value);
        }
        changed
    };
    rounds(mixture, &cells, values.len(), max_iterations, round)
}

/// Fits like [`fit`], several times faster, but the last bits of the result may
/// differ.
///
/// # Panics
/// See [`fit`].
#[must_use]
pub fn fit_sample(values: Vec<f64>, components: u8, max_iterations: u32) -> Fit {
    let (mean, deviation) = sum::mean_and_deviation(&values);
    let cells = Cells::new(mean, deviation);
    let mut grouped = Grouped::new(values, &cells);
    let mixture = initial(&grouped.values, deviation, components);
    let count = grouped.values.len();
    let round = |winners: &Winners, members: &mut [Members]| grouped.assign(winners, members);
    rounds(mixture, &cells, count, max_iterations, round)
}

/// Assigns and updates until few values change component. `round` assigns the
/// values, sums the members of each component, and returns the number of values
/// that changed component.
fn rounds(
    mut mixture: Mixture,
    cells: &Cells,
    count: usize,
    max_iterations: u32,
    mut round: impl FnMut(&Winners, &mut [Members]) -> usize,
) -> Fit {
    let count = as_f64(count);
    for iteration in 0..max_iterations {
        let mut members = vec![Members::default(); mixture.len()];
        let changed = round(&Winners::new(&mixture, cells), &mut members);
        if iteration > 0 && as_f64(changed) / count < SETTLED {
            return Fit {
                mixture,
                iterations: iteration + 1,
            };
        }
        update(&mut mixture, &members, count);
    }
    Fit {
        mixture,
        iterations: max_iterations,
    }
}

/// Sums over the values of a component, in their order.
#[derive(Debug, Clone, Copy, Default)]
pub struct Members {
    count: u64,
    sum: f64,
    squares: f64,
}

impl Members {
    pub fn join(&mut self, more: &Self) {
        self.count += more.count;
        self.sum += more.sum;
        self.squares += more.squares;
    }

    pub fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.squares += value * value;
    }
}

/// Returns the initial mixture: equal weights and widths, with means at evenly
/// spaced percentiles (6 step 2).
fn initial(sorted: &[f64], deviation: f64, components: u8) -> Mixture {
    assert!(!sorted.is_empty(), "nothing to fit");
    assert!(components >= 2, "a mixture has at least two components");
    let deviation = deviation / f64::from(components);
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
        deviations: vec![deviation.max(MIN_DEVIATION); many],
    }
}

/// Returns a percentile, interpolated between the two nearest values like
/// NumPy's default.
fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let position = percent / 100.0 * as_f64(sorted.len() - 1);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // never negative
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

/// Updates weights, means and deviations from the members (6 step 3c).
fn update(mixture: &mut Mixture, members: &[Members], all: f64) {
    for (number, members) in members.iter().enumerate() {
        #[allow(clippy::cast_precision_loss)] // far below 2^53
        let count = members.count as f64;
        mixture.weights[number] = count / all;
        if members.count > 0 {
            let mean = members.sum / count;
            let variance = (members.squares / count - mean * mean).max(0.0);
            mixture.means[number] = mean;
            mixture.deviations[number] = libm::sqrt(variance).max(MIN_DEVIATION);
        }
    }
}

#[allow(clippy::cast_precision_loss)] // far below 2^53
fn as_f64(count: usize) -> f64 {
    count as f64
}
