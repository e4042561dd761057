//! Finds the scale of a group. Every element confines the scale to an interval;
//! the scale is the number with the fewest significant bits inside all of them.

use alloc::vec::Vec;

use super::kind::Kind;
use super::sheet::Rounded;

/// Short scales are searched only in this inner fraction of an interval. At the
/// ends of the interval, a product is halfway between two neighbouring
/// elements.
const INNER: f64 = 0.94;

/// The number of floats around the middle of the interval that are also tried
/// as scales, because an interval may be so narrow that hardly any float is
/// inside.
const MAX_NEAR: u32 = 8;

/// An interval of scales that put all elements of a group on the grid.
#[derive(Debug, Clone, Copy)]
pub struct Scales {
    low: f64,
    high: f64,
    /// The grid magnitude of the largest element.
    pub anchor: f64,
}

impl Scales {
    /// Returns the scales that fit `elements`, which are in ascending order.
    /// `anchors` are the possible grid magnitudes of the largest element; the
    /// first one that allows any scale is used.
    pub fn of(kind: &Kind, elements: &[Rounded], anchors: &[f64]) -> Option<Self> {
        let (last, rest) = elements.split_last()?;
        let Some(first) = rest.first() else {
            return anchors.first().map(|&anchor| Self::new(last, anchor));
        };
        let ratio = first.value / last.value;
        let width = |element: &Rounded| (element.high - element.low) / element.value;
        // Slightly more than half of both widths, because this only rules out
        // anchors early; `with` checks exactly.
        let slack = 0.51 * (width(first) + width(last));
        anchors.iter().copied().find_map(|anchor| {
            let expected = ratio * anchor;
            let nearest = kind.nearest(expected, first.is_negative);
            if (expected - nearest).abs() > slack * nearest {
                return None;
            }
            let start = Self::new(last, anchor);
            rest.iter()
                .try_fold(start, |scales, element| scales.with(kind, element))
        })
    }

    fn new(largest: &Rounded, anchor: f64) -> Self {
        Self {
            low: largest.low / anchor,
            high: largest.high / anchor,
            anchor,
        }
    }

    /// Returns the scales that also fit `element`.
    #[inline]
    pub fn with(self, kind: &Kind, element: &Rounded) -> Option<Self> {
        let middle = (self.low + self.high) / 2.0;
        let nearest = kind.nearest(element.value / middle, element.is_negative);
        let low = self.low.max(element.low / nearest);
        let high = self.high.min(element.high / nearest);
        (nearest > 0.0 && low <= high).then_some(Self { low, high, ..self })
    }

    /// Returns the numbers to try as the scale, in order of preference.
    pub fn candidates(&self) -> Vec<f32> {
        let margin = (self.high - self.low) * (1.0 - INNER) / 2.0;
        let shortest = shortest(self.low + margin, self.high - margin);
        #[allow(clippy::cast_possible_truncation)] // rounds to the nearest float
        let middle = ((self.low + self.high) / 2.0) as f32;
        // The floats nearest to the middle on both sides, for an interval in
        // which all floats are about equally long.
        let bits = middle.to_bits();
        let near = (0..=MAX_NEAR).flat_map(|step| {
            let half = step.div_ceil(2);
            let bits = if step % 2 == 0 {
                bits + half
            } else {
                bits.saturating_sub(half)
            };
            let near = f32::from_bits(bits);
            let is_inside = near > 0.0 && (self.low..=self.high).contains(&f64::from(near));
            is_inside.then_some(near)
        });
        shortest.into_iter().chain(near).collect()
    }
}

/// Returns the number with the fewest significant bits between `low` and
/// `high`, which are positive. Returns `None` if there is no normal float
/// between them.
fn shortest(low: f64, high: f64) -> Option<f32> {
    if low > high || high > f64::from(f32::MAX) || low < f64::from(f32::MIN_POSITIVE) {
        return None;
    }
    let bits = low.to_bits();
    (29..=52).rev().find_map(|dropped: u32| {
        // The least multiple that is not below `low`. A carry into the exponent
        // gives the next power of two, which is also correct.
        let mask = (1u64 << dropped) - 1;
        let rounded = f64::from_bits((bits + mask) & !mask);
        #[allow(clippy::cast_possible_truncation)] // at most 24 significant bits are left
        (rounded <= high).then_some(rounded as f32)
    })
}
