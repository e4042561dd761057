//! Finds the most likely component of every value (docs/formats/gauss.md 7).
//!
//! The real numbers are divided into short intervals, the cells. In most of
//! them, one component is the most likely one for every value, so assigning a
//! value is a table lookup.

use alloc::vec;
use alloc::vec::Vec;

use super::Mixture;
use crate::transform::gmm;

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
    let (mean, deviation) = gmm::mean_and_deviation(values);
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
    pub(crate) fn best_between(self, first: f64, last: f64) -> f64 {
        self.score(self.mean.clamp(first, last))
    }

    /// Returns the logarithm of the weighted density, up to a constant.
    pub(crate) fn score(self, value: f64) -> f64 {
        let distance = (value - self.mean) * self.precision;
        self.constant - 0.5 * (distance * distance)
    }
}

/// Number of cells in the interval that contains nearly all values. There is
/// one more unbounded cell on either side.
const CELLS: usize = 1 << 13;

/// Number of consecutive cells that share a list of candidate components.
const STRETCH: usize = 1 << 5;

/// The distance from the mean, in deviations, that the bounded cells cover.
const REACH_DEVIATIONS: f64 = 6.0;

/// The margin on either side of a cell, in cells. Positions have rounding
/// errors far below it.
const SLACK: f64 = 1e-6;

/// Marks a cell in which the most likely component depends on the value.
pub(crate) const CONTENDED: u16 = 1 << 8;

/// The positions of the cells.
#[derive(Debug, Clone, Copy)]
pub struct Cells {
    first: f64,
    len: f64,
    cells_per_unit: f64,
}

impl Cells {
    /// Creates cells for values with this mean and deviation.
    pub fn new(mean: f64, deviation: f64) -> Self {
        // Any length works as long as no infinities arise.
        let reach = (deviation * REACH_DEVIATIONS).max(f64::MIN_POSITIVE / f64::EPSILON);
        #[allow(clippy::cast_precision_loss)] // a power of two
        let cells = CELLS as f64;
        Self {
            first: mean - reach,
            len: 2.0 * reach / cells,
            cells_per_unit: cells / (2.0 * reach),
        }
    }

    /// Returns the cell of `value`: 0 before the first bounded cell, and
    /// [`CELLS`] + 1 after the last one.
    pub fn find(&self, value: f64) -> u16 {
        let place = (value - self.first) * self.cells_per_unit + 1.0;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates, clamped
        let cell = (place as u32).min(CELLS as u32 + 1) as u16;
        cell
    }

    /// Returns the lower and the upper bound of the values in `count`
    /// consecutive bounded cells. The first of them has the index `first` among
    /// the bounded cells.
    fn ends(&self, first: usize, count: usize) -> (f64, f64) {
        #[allow(clippy::cast_precision_loss)] // small
        let (from, to) = (first as f64 - SLACK, (first + count) as f64 + SLACK);
        (self.first + from * self.len, self.first + to * self.len)
    }
}

/// The most likely component of each cell, which is called its winner.
#[derive(Debug, Clone)]
pub struct Winners {
    all: Vec<(u8, Scorer)>,
    /// The winner of each cell, or [`CONTENDED`] if it depends on the value.
    winners: Vec<u16>,
    /// The candidate components of each stretch, concatenated.
    rivals: Vec<(u8, Scorer)>,
    /// The start of each stretch in `rivals`, and the end of the last one.
    starts: Vec<usize>,
}

impl Winners {
    /// Determines the winners among the components of `mixture`. There must be
    /// at most 256 components.
    pub fn new(mixture: &Mixture, cells: &Cells) -> Self {
        let all: Vec<(u8, Scorer)> = (0..=u8::MAX).zip(Scorer::all(mixture)).collect();
        let mut winners = vec![CONTENDED; CELLS + 2];
        let mut rivals = Vec::new();
        let mut starts = vec![0];
        for (number, winners) in winners[1..=CELLS].chunks_mut(STRETCH).enumerate() {
            let start = rivals.len();
            contend(&all, cells.ends(number * STRETCH, STRETCH), &mut rivals);
            for (cell, winner) in winners.iter_mut().enumerate() {
                let ends = cells.ends(number * STRETCH + cell, 1);
                *winner = sole(&rivals[start..], ends);
            }
            starts.push(rivals.len());
        }
        Self {
            all,
            winners,
            rivals,
            starts,
        }
    }

    /// Returns the component of all values in `cell`, or [`CONTENDED`].
    pub(crate) fn of_cell(&self, cell: u16) -> u16 {
        self.winners[usize::from(cell)]
    }

    /// Returns the component of `value`, which must be in `cell`.
    #[inline]
    pub fn find(&self, value: f64, cell: u16) -> u8 {
        let [component, contended] = self.winners[usize::from(cell)].to_le_bytes();
        if contended == 0 {
            return component;
        }
        self.compare(value, cell)
    }

    #[inline(never)]
    fn compare(&self, value: f64, cell: u16) -> u8 {
        let stretch = usize::from(cell).wrapping_sub(1) / STRETCH;
        let rivals = match self.starts.get(stretch..stretch.saturating_add(2)) {
            Some(&[start, end]) => &self.rivals[start..end],
            _ => &self.all,
        };
        let mut best = f64::NEG_INFINITY;
        // If all scores are negative infinity, the first component wins.
        let mut chosen = 0;
        for &(number, scorer) in rivals {
            let score = scorer.score(value);
            if score > best {
                (best, chosen) = (score, number);
            }
        }
        chosen
    }
}

/// Returns the highest score that a single component reaches everywhere between
/// the ends.
fn everywhere(scorers: &[(u8, Scorer)], (first, last): (f64, f64)) -> f64 {
    let least = |scorer: &Scorer| scorer.score(first).min(scorer.score(last));
    let scores = scorers.iter().map(|(_, scorer)| least(scorer));
    scores.fold(f64::NEG_INFINITY, f64::max)
}

/// Appends the components that may be the most likely one for some value
/// between the ends, in ascending order.
fn contend(scorers: &[(u8, Scorer)], ends: (f64, f64), rivals: &mut Vec<(u8, Scorer)>) {
    let needed = everywhere(scorers, ends);
    let able = |(_, scorer): &&(u8, Scorer)| scorer.best_between(ends.0, ends.1) >= needed;
    rivals.extend(scorers.iter().filter(able));
}

/// Returns the component that wins everywhere between the ends, or
/// [`CONTENDED`] if there is none.
fn sole(scorers: &[(u8, Scorer)], ends: (f64, f64)) -> u16 {
    let needed = everywhere(scorers, ends);
    let mut able = scorers
        .iter()
        .filter(|(_, scorer)| scorer.best_between(ends.0, ends.1) >= needed);
    match (able.next(), able.next()) {
        (Some((number, _)), None) => u16::from(*number),
        _ => CONTENDED,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::transform::gmm::fit;

    proptest! {
        #[test]
        fn cells_change_no_assignment(
            values in prop::collection::vec(
                prop_oneof![-1.0..1.0f64, -1e-3..1e-3f64, Just(0.0), Just(-0.0), -1e30..1e30f64],
                1..700,
            ),
            components in 2u8..=255,
            rounds in 0u32..4,
            mean in prop_oneof![Just(0.0), -1.0..1.0f64],
            deviation in prop_oneof![Just(0.0), 0.0..1e-300f64, 0.0..1e-3f64, 0.0..1.0f64, 0.0..1e30f64],
        ) {
            let mixture = fit(&values, components, rounds).mixture;
            let mut direct = vec![0; values.len()];
            assign_one_by_one(&mixture, &values, &mut direct);
            let mut all = vec![1; values.len()];
            assign(&mixture, &values, &mut all);
            prop_assert_eq!(&direct, &all);
            let cells = Cells::new(mean, deviation);
            let winners = Winners::new(&mixture, &cells);
            for (value, component) in values.iter().zip(direct) {
                prop_assert_eq!(winners.find(*value, cells.find(*value)), component);
            }
        }
    }

    #[test]
    fn most_cells_have_one_winner() {
        let values: Vec<f64> = (1..4000)
            .map(|n| libm::sin(f64::from(n)) / f64::from(n % 7 + 1))
            .collect();
        let mixture = fit(&values, 16, 20).mixture;
        let winners = Winners::new(&mixture, &Cells::new(0.0, 0.3));
        let contended = winners
            .winners
            .iter()
            .filter(|winner| **winner == CONTENDED);
        assert!(contended.count() < CELLS / 20);
    }
}
