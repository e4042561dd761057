//! Represents values by a mixture of a few Gaussians (docs/formats/gauss.md 6,
//! 7): the component of each value, and the distance from the component's mean.
//! This is lossy, and only Gauss files use it.
//!
//! Every sum has a fixed order, and logarithms are computed in pure Rust, so
//! the same values give the same mixture on every machine (10.2).

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

mod assign;
mod cells;
mod fit;
mod grouped;
mod sum;

pub use assign::assign;
pub use fit::{Fit, fit, fit_sample};

/// The smallest deviation that a fit assigns to a component, which prevents
/// components from collapsing.
pub const MIN_DEVIATION: f64 = 1e-6;

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
    pub fn total_weight(&self) -> f64 {
        sum::pairwise(&self.weights, |weight| weight)
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
