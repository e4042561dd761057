//! Represents values by a mixture of a few Gaussians (docs/formats/gauss.md 6,
//! 7): the component of each value, and the distance from the component's mean.
//! This is lossy, and only Gauss files use it.
//!
//! Every sum has a fixed order, and logarithms are computed in pure Rust, so
//! the same values give the same mixture on every machine (10.2).

use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::bytes::index;
use assign::{CONTENDED, Cells, Winners};

mod assign;

pub use assign::assign;

/// The smallest deviation that a fit assigns to a component, which prevents
/// components from collapsing.
pub(crate) const MIN_DEVIATION: f64 = 1e-6;

/// A mixture of weighted Gaussians. The three lists have the same length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mixture {
    /// Weights of the components (pi), which are fractions of all values.
    pub weights: Vec<f64>,
    /// Means (mu).
    pub means: Vec<f64>,
    /// Standard deviations (sigma), in the unit of the values.
    pub deviations: Vec<f64>,
}

impl Mixture {
    /// Returns the number of components.
    #[must_use]
    pub fn len(&self) -> usize {
        self.weights.len()
    }

    /// Returns whether there is no component.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.weights.is_empty()
    }

    /// Returns the sum of the weights, added in the order of
    /// docs/formats/gauss.md 8.1.
    #[must_use]
    pub(crate) fn total_weight(&self) -> f64 {
        pairwise_sum(&self.weights, |weight| weight)
    }

    /// Returns the weights as probabilities in single precision (8.1 step 1).
    #[must_use]
    pub fn probabilities(&self) -> Vec<f32> {
        let total = self.total_weight();
        self.weights
            .iter()
            .map(|weight| {
                #[allow(clippy::cast_possible_truncation)] // rounding that the format prescribes
                let probability = (weight / total) as f32;
                probability
            })
            .collect()
    }
}

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
    let (mean, deviation) = mean_and_deviation(values);
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
pub(crate) fn fit_sample(values: Vec<f64>, components: u8, max_iterations: u32) -> Fit {
    let (mean, deviation) = mean_and_deviation(&values);
    let cells = Cells::new(mean, deviation);
    let mut grouped = Grouped::new(values, &cells);
    let mixture = initial(&grouped.values, deviation, components);
    let count = grouped.values.len();
    let round = |winners: &Winners, members: &mut [Members]| grouped.assign(winners, members);
    rounds(mixture, &cells, count, max_iterations, round)
}

/// Alternates between assigning values and updating the mixture until few
/// values change component. `round` assigns the values, sums the members of
/// each component, and returns the number of values that changed component.
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

/// The sums over the values of one component, added in the order of the values.
#[derive(Debug, Clone, Copy, Default)]
struct Members {
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

/// Values in ascending order, grouped by cell.
#[derive(Debug, Clone)]
struct Grouped {
    pub values: Vec<f64>,
    groups: Vec<Group>,
    /// The component of each value. It is up to date only in contended cells.
    assigned: Vec<u8>,
}

/// The values of one cell.
#[derive(Debug, Clone)]
struct Group {
    cell: u16,
    end: usize,
    all: Members,
    /// The winner of the cell in the last round.
    winner: u16,
}

impl Grouped {
    /// Sorts `values` and groups them by cell.
    pub fn new(mut values: Vec<f64>, cells: &Cells) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let mut groups: Vec<Group> = Vec::new();
        for (number, &value) in values.iter().enumerate() {
            let cell = cells.find(value);
            // Cell indices never decrease as values increase.
            if groups.last().is_none_or(|group| group.cell != cell) {
                groups.push(Group {
                    cell,
                    end: number,
                    all: Members::default(),
                    winner: 0,
                });
            }
            if let Some(group) = groups.last_mut() {
                group.end = number + 1;
                group.all.add(value);
            }
        }
        let assigned = vec![0; values.len()];
        Self {
            values,
            groups,
            assigned,
        }
    }

    /// Assigns all values, sums the members of each component, and returns the
    /// number of values that changed component.
    pub fn assign(&mut self, winners: &Winners, members: &mut [Members]) -> usize {
        let mut changed = 0;
        let mut start = 0;
        for group in &mut self.groups {
            let range = start..group.end;
            start = group.end;
            let winner = winners.of_cell(group.cell);
            let before = core::mem::replace(&mut group.winner, winner);
            let assigned = &mut self.assigned[range.clone()];
            match u8::try_from(winner) {
                Ok(component) => {
                    changed += match before {
                        CONTENDED => assigned.iter().filter(|b| **b != component).count(),
                        before if before == winner => 0,
                        _ => assigned.len(),
                    };
                    members[usize::from(component)].join(&group.all);
                }
                Err(_) => {
                    if let Ok(before) = u8::try_from(before) {
                        assigned.fill(before);
                    }
                    for (&value, assigned) in self.values[range].iter().zip(assigned) {
                        let component = winners.find(value, group.cell);
                        changed += usize::from(component != *assigned);
                        *assigned = component;
                        members[usize::from(component)].add(value);
                    }
                }
            }
        }
        changed
    }
}

/// Maximum number of values that are summed without dividing them into halves.
const STRETCH: usize = 128;

/// Returns the mean and the population deviation, computed in two passes.
fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    #[allow(clippy::cast_precision_loss)] // far below 2^53
    let count = values.len() as f64;
    let mean = pairwise_sum(values, |value| value) / count;
    let squares = pairwise_sum(values, |value| (value - mean) * (value - mean));
    (mean, libm::sqrt(squares / count))
}

/// Returns the pairwise sum of `term` applied to every value.
fn pairwise_sum(values: &[f64], term: impl Fn(f64) -> f64 + Copy) -> f64 {
    if values.len() > STRETCH {
        let half = values.len() / 2 / 8 * 8;
        let (first, rest) = values.split_at(half);
        return pairwise_sum(first, term) + pairwise_sum(rest, term);
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
