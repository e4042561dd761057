//! How far a value is from its component's mean, in steps
//! (docs/formats/gauss.md 8.2).

use alloc::vec::Vec;
use core::f64::consts::SQRT_2;

use super::{BITS, Interval, TOTAL};
use crate::bytes::index;

/// Largest residual; the smallest is its negative.
pub const MOST_RESIDUAL: i32 = 32767;

/// Deviations below this would leave nothing to the neighbours of 0.
const LEAST_DEVIATION: f64 = 0.5;

/// What the Gaussian shares out after every symbol got one.
const FREE: f64 = 16_711_681.0;

/// Residuals beyond that many deviations are too rare for the table.
const TABLE_DEVIATIONS: f64 = 6.5;

const GUIDE_BITS: u32 = 10;

/// Residuals -32767 to 32767 around 0.
#[derive(Debug, Clone)]
pub struct Gaussian {
    /// Deviation times the square root of 2.
    spread: f64,
    /// Residuals up to this one are in the table once there is one.
    half: i32,
    /// Look-ups until the table pays.
    lookups_left: i32,
    table: Option<Table>,
}

/// The model's formula, evaluated once for the residuals that occur.
#[derive(Debug, Clone)]
struct Table {
    /// Of `-half` to `half + 1`.
    lefts: Vec<u32>,
    /// Per value of the quantile's upper bits, the entry its range begins in.
    guide: Vec<u32>,
}

impl Gaussian {
    /// The model of a component with that deviation, in steps.
    #[must_use]
    pub fn new(deviation: f64) -> Self {
        let deviation = deviation.max(LEAST_DEVIATION);
        #[allow(clippy::cast_possible_truncation)] // saturates, then cut
        let half = ((deviation * TABLE_DEVIATIONS) as i32).saturating_add(2);
        let half = half.min(MOST_RESIDUAL);
        Self {
            spread: deviation * SQRT_2,
            half,
            // A search takes 16 evaluations, the table two a residual.
            lookups_left: half / 8,
            table: None,
        }
    }

    /// Where the interval of `residual` begins, from the formula.
    fn formula(&self, residual: i32) -> u32 {
        if residual <= -MOST_RESIDUAL {
            return 0;
        }
        if residual > MOST_RESIDUAL {
            return TOTAL;
        }
        let below = (1.0 + libm::erf((f64::from(residual) - 0.5) / self.spread)) / 2.0;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // below 2^24
        let share = (FREE * below) as u32;
        share + (residual + MOST_RESIDUAL).unsigned_abs()
    }

    fn between(left: u32, right: u32) -> Interval {
        Interval {
            left,
            len: right - left,
        }
    }

    fn table(&mut self) -> Option<&Table> {
        if self.table.is_none() {
            self.lookups_left -= 1;
            if self.lookups_left >= 0 {
                return None;
            }
            self.table = Some(Table::new(self));
        }
        self.table.as_ref()
    }

    /// The interval of `residual`, which is from -32767 to 32767.
    #[must_use]
    pub fn interval(&mut self, residual: i32) -> Interval {
        let half = self.half;
        if residual.abs() <= half
            && let Some(table) = self.table()
        {
            let entry = index(u64::from((residual + half).unsigned_abs()));
            return Self::between(table.lefts[entry], table.lefts[entry + 1]);
        }
        Self::between(self.formula(residual), self.formula(residual + 1))
    }

    /// The residual whose interval holds `quantile`, which is below 2^24.
    #[must_use]
    pub fn find(&mut self, quantile: u32) -> (i32, Interval) {
        let half = self.half;
        if let Some(table) = self.table()
            && let Some((entry, interval)) = table.find(quantile)
        {
            return (entry - half, interval);
        }
        // The largest residual that does not begin after the quantile.
        let (mut found, mut after) = (-MOST_RESIDUAL, MOST_RESIDUAL + 1);
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
}

impl Table {
    fn new(model: &Gaussian) -> Self {
        let lefts: Vec<u32> = (-model.half..=model.half + 1)
            .map(|residual| model.formula(residual))
            .collect();
        let mut entry = 0u32;
        let last = lefts.len() - 2;
        let guide = (0..=1u32 << GUIDE_BITS)
            .map(|start| {
                let quantile = u64::from(start) << (BITS - GUIDE_BITS);
                while index(u64::from(entry)) < last
                    && u64::from(lefts[index(u64::from(entry)) + 1]) <= quantile
                {
                    entry += 1;
                }
                entry
            })
            .collect();
        Self { lefts, guide }
    }

    /// Number of the entry that holds `quantile`, if one does.
    fn find(&self, quantile: u32) -> Option<(i32, Interval)> {
        let (first, last) = (self.lefts.first()?, self.lefts.last()?);
        if quantile < *first || quantile >= *last {
            return None;
        }
        let bucket = index(u64::from(quantile >> (BITS - GUIDE_BITS)));
        let from = index(u64::from(self.guide[bucket]));
        let to = index(u64::from(self.guide[bucket + 1]));
        let within = &self.lefts[from + 1..=to];
        let entry = from + within.partition_point(|&left| left <= quantile);
        let interval = Gaussian::between(self.lefts[entry], self.lefts[entry + 1]);
        Some((i32::try_from(entry).ok()?, interval))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            for residual in (-MOST_RESIDUAL..=MOST_RESIDUAL).step_by(3) {
                let (left, right) = (formula.formula(residual), formula.formula(residual + 1));
                assert!(left < right, "residual {residual} of {deviation} is empty");
                let interval = Gaussian::between(left, right);
                assert_eq!(tabled.interval(residual), interval);
                assert_eq!(tabled.find(left), (residual, interval));
                assert_eq!(tabled.find(right - 1), (residual, interval));
            }
            assert!(tabled.table.is_some());
        }
    }
}
