//! Fits the scale of a group: every element confines it to an interval, and the
//! scale is the shortest number inside all of them.

use alloc::vec::Vec;

use super::kind::Kind;
use super::sheet::Rounded;

/// The part of an interval in which a scale is looked for: at its ends,
/// elements are halfway between two neighbours.
const INNER: f64 = 0.94;

/// The most scales that are tried where an interval is so narrow that hardly
/// any number is inside.
const MAX_NEAR: u32 = 8;

/// The scales for which all elements of a group are on the grid.
#[derive(Debug, Clone, Copy)]
pub struct Scales {
    low: f64,
    high: f64,
    /// The magnitude that the largest element has on the grid.
    pub anchor: f64,
}

impl Scales {
    /// Returns the scales for a group with these elements, the smallest first.
    /// The first of the `anchors` wins for which there are any.
    pub fn of(kind: &Kind, elements: &[Rounded], anchors: &[f64]) -> Option<Self> {
        let (last, rest) = elements.split_last()?;
        let Some(first) = rest.first() else {
            return anchors.first().map(|&anchor| Self::new(last, anchor));
        };
        let ratio = first.value / last.value;
        let width = |element: &Rounded| (element.high - element.low) / element.value;
        // Half of the widths and a little more: `with` looks closer.
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

    /// Returns those scales that also suit `element`.
    #[inline]
    pub fn with(self, kind: &Kind, element: &Rounded) -> Option<Self> {
        let middle = (self.low + self.high) / 2.0;
        let nearest = kind.nearest(element.value / middle, element.is_negative);
        let low = self.low.max(element.low / nearest);
        let high = self.high.min(element.high / nearest);
        (nearest > 0.0 && low <= high).then_some(Self { low, high, ..self })
    }

    /// Returns numbers to try as the scale, the best first.
    pub fn candidates(&self) -> Vec<f32> {
        let margin = (self.high - self.low) * (1.0 - INNER) / 2.0;
        let shortest = shortest(self.low + margin, self.high - margin);
        #[allow(clippy::cast_possible_truncation)] // to the nearest
        let middle = ((self.low + self.high) / 2.0) as f32;
        // The nearest numbers on both sides, where all are about as long.
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

/// Returns the number with the fewest significant bits in an interval of
/// positive numbers; `None` if it contains no float or only subnormal ones.
fn shortest(low: f64, high: f64) -> Option<f32> {
    if low > high || high > f64::from(f32::MAX) || low < f64::from(f32::MIN_POSITIVE) {
        return None;
    }
    let bits = low.to_bits();
    (29..=52).rev().find_map(|dropped: u32| {
        // The least multiple that is not below; a carry doubles the power.
        let mask = (1u64 << dropped) - 1;
        let rounded = f64::from_bits((bits + mask) & !mask);
        #[allow(clippy::cast_possible_truncation)] // 24 significant bits
        (rounded <= high).then_some(rounded as f32)
    })
}
