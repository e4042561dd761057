//! The model of the component that a value belongs to (docs/formats/gauss.md
//! 8.1).

use alloc::vec;
use alloc::vec::Vec;

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
}
