//! Finds the most likely component of every value (docs/formats/gauss.md 7).

use alloc::vec::Vec;

use super::cells::{Cells, Winners};
use super::{Mixture, sum};

/// Number of values that are compared with all components together, so that
/// they stay in registers and cache.
const BLOCK: usize = 256;

/// Building cells is not worthwhile for fewer values.
const FEW: usize = 1 << 12;

/// Writes the index of the component with the largest weighted density at each
/// value. Of equal densities, the lowest index wins.
///
/// # Panics
/// If `values` and `components` differ in length, or there are more than 256
/// components.
pub fn assign(mixture: &Mixture, values: &[f64], components: &mut [u8]) {
    assert_eq!(values.len(), components.len(), "one component a value");
    assert!(mixture.len() <= 256, "component numbers are bytes");
    if values.len() < FEW {
        assign_one_by_one(mixture, values, components);
        return;
    }
    let (mean, deviation) = sum::mean_and_deviation(values);
    let cells = Cells::new(mean, deviation);
    let winners = Winners::new(mixture, &cells);
    for (value, component) in values.iter().zip(components) {
        *component = winners.find(*value, cells.find(*value));
    }
}

/// Assigns values by trying all components.
pub(super) fn assign_one_by_one(mixture: &Mixture, values: &[f64], components: &mut [u8]) {
    let blocks = values.chunks(BLOCK).zip(components.chunks_mut(BLOCK));
    let scorers = Scorer::all(mixture);
    for (values, components) in blocks {
        let mut block = [0f64; BLOCK];
        block[..values.len()].copy_from_slice(values);
        let mut best = [f64::NEG_INFINITY; BLOCK];
        let mut chosen = [0u64; BLOCK];
        for (number, scorer) in (0u64..).zip(&scorers) {
            for ((value, best), chosen) in block.iter().zip(&mut best).zip(&mut chosen) {
                let score = scorer.score(*value);
                let better = score > *best;
                *best = if better { score } else { *best };
                *chosen = if better { number } else { *chosen };
            }
        }
        for (component, chosen) in components.iter_mut().zip(chosen) {
            *component = chosen.to_le_bytes()[0];
        }
    }
}

/// The terms of a component's score that do not depend on the value.
#[derive(Debug, Clone, Copy)]
pub struct Scorer {
    constant: f64,
    mean: f64,
    precision: f64,
}

impl Scorer {
    /// Creates the scorers of all components.
    pub fn all(mixture: &Mixture) -> Vec<Self> {
        (0..mixture.len())
            .map(|number| Self::new(mixture, number))
            .collect()
    }

    fn new(mixture: &Mixture, number: usize) -> Self {
        let deviation = mixture.deviations[number] + 1e-10;
        Self {
            constant: libm::log(mixture.weights[number] + 1e-300) - libm::log(deviation),
            mean: mixture.means[number],
            precision: 1.0 / deviation,
        }
    }

    /// Returns the best score of any value between `first` and `last`.
    pub fn best_between(self, first: f64, last: f64) -> f64 {
        self.score(self.mean.clamp(first, last))
    }

    /// Returns the logarithm of the weighted density, up to a constant.
    pub fn score(self, value: f64) -> f64 {
        let distance = (value - self.mean) * self.precision;
        self.constant - 0.5 * (distance * distance)
    }
}
