//! The models of the two streams (docs/formats/gauss.md 8.1 and 8.2).
//! [`Categorical`] models the component that a value belongs to, [`Gaussian`]
//! the distance of the value from the component's mean, in quantisation steps.

use alloc::vec;
use alloc::vec::Vec;
use core::f64::consts::SQRT_2;

use super::{BITS, Interval, TOTAL};
use crate::bytes::index;

/// The number of upper bits of the quantile from which the decoder makes its
/// first guess.
const GUIDE_BITS: u32 = 10;

/// The intervals of symbols 0 to K-1, in proportion to their probabilities.
#[derive(Debug, Clone)]
pub struct Categorical {
    /// The start of each interval, and the end of the last one.
    lefts: Vec<u32>,
    /// For each value of the quantile's upper bits, the symbol whose interval
    /// contains the lowest quantile with these bits.
    guide: Vec<u8>,
}

impl Categorical {
    /// Returns the model of 2 to 255 probabilities that sum to about 1. It is
    /// computed in single precision, in the order of operations that the format
    /// prescribes.
    ///
    /// # Panics
    /// If there are fewer than 2 or more than 255.
    #[must_use]
    pub fn new(probabilities: &[f32]) -> Self {
        let count = u8::try_from(probabilities.len()).expect("at most 255 components");
        assert!(count >= 2, "no model of one symbol exists");
        let total: f32 = probabilities.iter().sum();
        #[allow(clippy::cast_precision_loss)] // below 2^24: exact
        let factor = (TOTAL - u32::from(count)) as f32 / total;
        let mut below = 0f32;
        let mut lefts = Vec::with_capacity(probabilities.len() + 1);
        for (symbol, probability) in (0u32..).zip(probabilities) {
            // The format prescribes saturating truncation. Rounding errors may
            // push an interval past the end, which leaves trailing symbols
            // without one.
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let left = ((below * factor) as u32).saturating_add(symbol).min(TOTAL);
            lefts.push(left);
            below += probability;
        }
        lefts.push(TOTAL);
        let mut guide = vec![0; 1 << GUIDE_BITS];
        let mut symbol = 0u8;
        for (start, guess) in (0u32..).zip(&mut guide) {
            while lefts[usize::from(symbol) + 1] <= start << (BITS - GUIDE_BITS) {
                symbol += 1;
            }
            *guess = symbol;
        }
        Self { lefts, guide }
    }

    /// Returns the interval of `symbol`; its length is 0 if the symbol cannot
    /// be coded.
    ///
    /// # Panics
    /// If there is no such symbol.
    #[must_use]
    #[inline]
    pub fn interval(&self, symbol: u8) -> Interval {
        let left = self.lefts[usize::from(symbol)];
        Interval {
            left,
            len: self.lefts[usize::from(symbol) + 1] - left,
        }
    }

    /// Returns the symbol whose interval contains `quantile`, which must be
    /// below 2^24.
    #[must_use]
    #[inline]
    pub fn find(&self, quantile: u32) -> (u8, Interval) {
        let mut symbol = self.guide[index(u64::from(quantile >> (BITS - GUIDE_BITS)))];
        // The first step is branchless; further steps are rare.
        symbol += u8::from(self.lefts[usize::from(symbol) + 1] <= quantile);
        while self.lefts[usize::from(symbol) + 1] <= quantile {
            symbol += 1;
        }
        (symbol, self.interval(symbol))
    }
}

/// The largest residual; the smallest is its negative.
pub(crate) const MAX_RESIDUAL: i32 = 32767;

/// The least standard deviation, in steps. With a smaller one, the neighbours
/// of 0 would get hardly any probability.
const MIN_DEVIATION: f64 = 0.5;

/// The part of 2^24 that is distributed according to the Gaussian. The rest
/// gives every symbol a length of one.
const FREE: f64 = 16_711_681.0;

/// Residuals beyond this many deviations are too rare to be in the table.
const TABLE_DEVIATIONS: f64 = 6.5;

/// The intervals of residuals from -32767 to 32767.
#[derive(Debug, Clone)]
pub struct Gaussian {
    /// The deviation times the square root of 2.
    spread: f64,
    /// Residuals up to this magnitude are in the table, once it exists.
    half: i32,
    /// The number of lookups that remain until the table is worth building.
    lookups_left: i32,
    table: Table,
}

/// The model's formula, evaluated for the residuals that usually occur. The
/// table is empty until it is built.
#[derive(Debug, Clone, Default)]
struct Table {
    /// The intervals of `-half` to `half`, followed by an empty one at their
    /// end.
    intervals: Vec<Interval>,
    /// The start of the first interval, and the total length of all intervals.
    left: u32,
    len: u32,
    /// For each value of the quantile's upper bits, the entry whose interval
    /// contains the lowest quantile with these bits.
    guide: Vec<u16>,
    /// The number of low bits of a quantile that the guide ignores.
    shift: u32,
}

impl Gaussian {
    /// Returns the model of a component with the given deviation in steps.
    #[must_use]
    pub fn new(deviation: f64) -> Self {
        let deviation = deviation.max(MIN_DEVIATION);
        #[allow(clippy::cast_possible_truncation)] // saturates, and is clamped below
        let half = ((deviation * TABLE_DEVIATIONS) as i32).saturating_add(2);
        let half = half.min(MAX_RESIDUAL);
        Self {
            spread: deviation * SQRT_2,
            half,
            // A search takes 16 evaluations of the formula; the table takes two
            // for each residual up to `half`.
            lookups_left: half / 8,
            table: Table::default(),
        }
    }

    /// Computes the start of the interval of `residual` from the formula.
    fn formula(&self, residual: i32) -> u32 {
        if residual <= -MAX_RESIDUAL {
            return 0;
        }
        if residual > MAX_RESIDUAL {
            return TOTAL;
        }
        let below = (1.0 + libm::erf((f64::from(residual) - 0.5) / self.spread)) / 2.0;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // below 2^24
        let share = (FREE * below) as u32;
        share + (residual + MAX_RESIDUAL).unsigned_abs()
    }

    fn between(left: u32, right: u32) -> Interval {
        Interval {
            left,
            len: right - left,
        }
    }

    /// Returns the interval of `residual`, which must be from -32767 to 32767.
    #[must_use]
    #[inline]
    pub fn interval(&mut self, residual: i32) -> Interval {
        // Negative residuals beyond the table wrap to large numbers.
        #[allow(clippy::cast_sign_loss)]
        let entry = index(u64::from((residual + self.half) as u32));
        match self.table.intervals.get(entry) {
            Some(&interval) if residual <= self.half => interval,
            _ => self.interval_by_formula(residual),
        }
    }

    #[cold]
    fn interval_by_formula(&mut self, residual: i32) -> Interval {
        self.count();
        Self::between(self.formula(residual), self.formula(residual + 1))
    }

    /// Returns the residual whose interval contains `quantile`, which must be
    /// below 2^24.
    #[must_use]
    #[inline]
    pub fn find(&mut self, quantile: u32) -> (i32, Interval) {
        match self.table.find(quantile) {
            Some((entry, interval)) => (entry - self.half, interval),
            None => self.search(quantile),
        }
    }

    /// Returns the largest residual whose interval does not begin after the
    /// quantile.
    #[cold]
    fn search(&mut self, quantile: u32) -> (i32, Interval) {
        self.count();
        let (mut found, mut after) = (-MAX_RESIDUAL, MAX_RESIDUAL + 1);
        while after - found > 1 {
            let middle = found + (after - found) / 2;
            if self.formula(middle) <= quantile {
                found = middle;
            } else {
                after = middle;
            }
        }
        let interval = Self::between(self.formula(found), self.formula(after));
        (found, interval)
    }

    /// Counts a lookup, and builds the table when it is worthwhile.
    fn count(&mut self) {
        if self.table.intervals.is_empty() {
            self.lookups_left -= 1;
            if self.lookups_left < 0 {
                self.table = Table::new(self);
            }
        }
    }
}

impl Table {
    fn new(model: &Gaussian) -> Self {
        let lefts: Vec<u32> = (-model.half..=model.half + 1)
            .map(|residual| model.formula(residual))
            .collect();
        let (left, end) = (lefts[0], lefts[lefts.len() - 1]);
        let mut intervals: Vec<Interval> = lefts
            .windows(2)
            .map(|pair| Gaussian::between(pair[0], pair[1]))
            .collect();
        intervals.push(Interval { left: end, len: 0 });
        // The guide and the table have about the same length. In the middle,
        // where nearly all quantiles lie, a range of the guide is much shorter
        // than an interval.
        let guide_bits = lefts.len().next_power_of_two().ilog2();
        let shift = BITS - guide_bits;
        let mut entry = 0u16;
        let guide = (0..1u32 << guide_bits)
            .map(|start| {
                let quantile = start << shift;
                while let Some(next) = lefts.get(usize::from(entry) + 1)
                    && *next <= quantile
                    && *next < end
                {
                    entry += 1;
                }
                entry
            })
            .collect();
        Self {
            intervals,
            left,
            len: end - left,
            guide,
            shift,
        }
    }

    /// Returns the index and the interval of the entry that contains
    /// `quantile`, if there is one.
    #[inline]
    fn find(&self, quantile: u32) -> Option<(i32, Interval)> {
        if quantile.wrapping_sub(self.left) >= self.len {
            return None;
        }
        let mut entry = usize::from(self.guide[index(u64::from(quantile >> self.shift))]);
        // The first step is branchless; further steps are rare.
        entry += usize::from(self.intervals[entry + 1].left <= quantile);
        while self.intervals[entry + 1].left <= quantile {
            entry += 1;
        }
        Some((i32::try_from(entry).ok()?, self.intervals[entry]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_found_from_both_ends_of_their_intervals() {
        let probabilities: Vec<f32> = (0..255u8).map(|i| f32::from(i % 7) / 760.0).collect();
        let model = Categorical::new(&probabilities);
        for symbol in 0..255 {
            let interval = model.interval(symbol);
            assert!(interval.len >= 1);
            assert_eq!(model.find(interval.left), (symbol, interval));
            assert_eq!(
                model.find(interval.left + interval.len - 1),
                (symbol, interval)
            );
        }
    }

    #[test]
    fn the_worked_value_of_the_format() {
        let model = Categorical::new(&[0.75, 0.25]);
        assert_eq!(model.interval(1).left, 12_582_911);
    }

    #[test]
    fn the_worked_values_of_the_format() {
        let mut model = Gaussian::new(1.0);
        let lefts: Vec<u32> = (-2..=2).map(|r| model.interval(r).left).collect();
        assert_eq!(
            lefts,
            [136_538, 1_149_226, 5_188_947, 11_588_268, 15_627_989]
        );
    }

    #[test]
    fn the_table_says_what_the_formula_says() {
        for deviation in [0.0, 0.5, 3.7, 60.0, 900.0, 5e3, 1e7, f64::MAX] {
            let formula = Gaussian::new(deviation);
            let mut tabled = formula.clone();
            tabled.lookups_left = 0;
            for residual in (-MAX_RESIDUAL..=MAX_RESIDUAL).step_by(3) {
                let (left, right) = (formula.formula(residual), formula.formula(residual + 1));
                assert!(left < right, "residual {residual} of {deviation} is empty");
                let interval = Gaussian::between(left, right);
                assert_eq!(tabled.interval(residual), interval);
                assert_eq!(tabled.find(left), (residual, interval));
                assert_eq!(tabled.find(right - 1), (residual, interval));
            }
            assert!(!tabled.table.intervals.is_empty());
        }
    }
}
