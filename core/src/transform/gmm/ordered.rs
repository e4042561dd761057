//! Values in ascending order, which are assigned much faster: few components
//! matter within a short stretch.
//!
//! A score never grows with the distance from the mean, not even in its last
//! bit, since each operation of it rounds monotonically. So scores at the ends
//! of a stretch bound those inside, and leaving a component out changes
//! nothing.

use alloc::vec::Vec;

use super::Mixture;
use super::assign::Scorer;

/// Values that share one choice of components.
const STRETCH: usize = 128;

/// Values, sorted, and their places before that.
#[derive(Debug, Clone)]
pub struct Ordered {
    pub values: Vec<f64>,
    places: Vec<usize>,
}

impl Ordered {
    /// Sorts `values`.
    pub fn new(values: &[f64]) -> Self {
        let mut pairs: Vec<(f64, usize)> = values.iter().copied().zip(0..).collect();
        pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let (values, places) = pairs.into_iter().unzip();
        Self { values, places }
    }

    /// What [`super::assign`] writes for the values in their first order.
    pub fn assign(&self, mixture: &Mixture, components: &mut [u8]) {
        let scorers = Scorer::all(mixture);
        let mut rivals = Vec::with_capacity(scorers.len());
        let stretches = self.values.chunks(STRETCH).zip(self.places.chunks(STRETCH));
        for (values, places) in stretches {
            contend(&scorers, values, &mut rivals);
            for (&value, &place) in values.iter().zip(places) {
                let mut best = f64::NEG_INFINITY;
                // Where all scores are infinitely low, the first one counts.
                let mut chosen = 0;
                for &(number, scorer) in &rivals {
                    let score = scorer.score(value);
                    if score > best {
                        (best, chosen) = (score, number);
                    }
                }
                components[place] = chosen;
            }
        }
    }
}

/// The components that may be the likeliest of one of `values`, in order.
fn contend(scorers: &[Scorer], values: &[f64], rivals: &mut Vec<(u8, Scorer)>) {
    rivals.clear();
    let (Some(&first), Some(&last)) = (values.first(), values.last()) else {
        return;
    };
    // What some component reaches everywhere.
    let everywhere = scorers
        .iter()
        .map(|scorer| scorer.score(first).min(scorer.score(last)))
        .fold(f64::NEG_INFINITY, f64::max);
    let able = |scorer: &Scorer| scorer.best_between(first, last) >= everywhere;
    rivals.extend(
        (0..=u8::MAX)
            .zip(scorers)
            .filter(|(_, s)| able(s))
            .map(|(n, s)| (n, *s)),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::gmm::{assign, fit};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn order_changes_no_assignment(
            values in prop::collection::vec(
                prop_oneof![-1.0..1.0f64, -1e-3..1e-3f64, Just(0.0), Just(-0.0), -1e30..1e30f64],
                1..700,
            ),
            components in 2u8..=255,
            rounds in 0u32..4,
        ) {
            let mixture = fit(&values, components, rounds).mixture;
            let mut direct = alloc::vec![0; values.len()];
            assign(&mixture, &values, &mut direct);
            let mut ordered = alloc::vec![1; values.len()];
            Ordered::new(&values).assign(&mixture, &mut ordered);
            prop_assert_eq!(direct, ordered);
        }
    }
}
