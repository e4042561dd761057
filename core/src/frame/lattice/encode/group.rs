//! Finds the scale and the symbols of one group. Every element confines the
//! scale to an interval; the scale is the number with the fewest significant
//! bits inside all of them.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::CandidateGrid;
use super::{Key, Matrix, Rounded};

/// For a grid with two-byte symbols, the number of elements of a group that
/// determine the anchor. All other elements only narrow the interval of the
/// scale.
const ANCHORING: usize = 64;

/// The scale of a group whose elements lie on the grid.
pub struct Fit {
    pub scale: f32,
    /// The grid magnitude of the largest element: the magnitude of the grid
    /// value that the scale multiplies. It is 0 if all elements are zero.
    pub anchor: f64,
}

/// Fits groups to a grid, one after another, reusing its buffers.
pub struct Fitter<'a> {
    matrix: Matrix<'a>,
    candidate: &'a CandidateGrid,
    /// The anchors for a positive and for a negative largest element, the most
    /// likely first.
    anchors: [Vec<f64>; 2],
    distinct: Distinct,
}

impl<'a> Fitter<'a> {
    /// Creates a fitter that tries the `likely` anchors before all others.
    pub fn new(matrix: Matrix<'a>, candidate: &'a CandidateGrid, likely: &[f64]) -> Self {
        let anchors = [false, true].map(|is_negative| {
            let all = candidate.anchors(is_negative);
            let first = likely.iter().copied().filter(|anchor| all.contains(anchor));
            let others = all
                .iter()
                .copied()
                .filter(|anchor| !likely.contains(anchor));
            first.chain(others).collect()
        });
        Self {
            matrix,
            candidate,
            anchors,
            distinct: Distinct::new(),
        }
    }

    /// Returns the distinct keys of a group in ascending order, or `None` if
    /// there are too many or an element is not finite.
    pub fn keys(
        &mut self,
        rows: impl Iterator<Item = u64>,
        columns: &Range<u64>,
    ) -> Option<&[Key]> {
        self.distinct.clear();
        let infinite = self.matrix.float.infinite_key();
        let distinct = &mut self.distinct;
        for row in rows {
            let visit = |key| key < infinite && distinct.insert(key);
            if !self.matrix.each_key(row, columns, visit) {
                return None;
            }
        }
        Some(distinct.sorted())
    }

    /// Returns the scales that fit `elements`, which are in ascending order.
    pub fn scales(&self, elements: &[Rounded]) -> Option<Scales> {
        let largest = elements.last()?;
        let anchors = &self.anchors[usize::from(largest.is_negative)];
        Scales::of(self.candidate, elements, anchors)
    }

    /// Returns the elements with these keys, except zeros.
    pub fn elements(&self, keys: &[Key]) -> Vec<Rounded> {
        let nonzero = keys.iter().copied().filter(|&key| key > 1);
        nonzero
            .map(|key| Rounded::of(self.matrix.float, key))
            .collect()
    }

    /// Encodes a group, calling `put` with row, column and symbol of each
    /// element. A group of zeros gets the scale `idle`. Returns `None` if the
    /// group does not fit the grid.
    pub fn code(
        &mut self,
        rows: impl Iterator<Item = u64> + Clone,
        columns: &Range<u64>,
        idle: f32,
        put: impl FnMut(u64, u64, u16),
    ) -> Option<Fit> {
        if self.candidate.is_small() {
            self.code_small(rows, columns, idle, put)
        } else {
            self.code_large(rows, columns, idle, put)
        }
    }

    fn code_small(
        &mut self,
        rows: impl Iterator<Item = u64> + Clone,
        columns: &Range<u64>,
        idle: f32,
        mut put: impl FnMut(u64, u64, u16),
    ) -> Option<Fit> {
        let keys = self.keys(rows.clone(), columns)?.to_vec();
        let elements = self.elements(&keys);
        let (candidates, anchor) = match elements.is_empty() {
            true => ([idle].into(), 0.0),
            false => {
                let scales = self.scales(&elements)?;
                (scales.candidates(), scales.anchor)
            }
        };
        let scale = candidates.into_iter().find(|&scale| {
            keys.iter().all(|&key| {
                let symbol = self.symbol(key, scale);
                symbol.is_some_and(|symbol| {
                    self.distinct.set(key, symbol);
                    true
                })
            })
        })?;
        for row in rows {
            let mut column = columns.start;
            self.matrix.each_key(row, columns, |key| {
                put(row, column, self.distinct.symbol(key));
                column += 1;
                true
            });
        }
        Some(Fit { scale, anchor })
    }

    fn code_large(
        &mut self,
        rows: impl Iterator<Item = u64> + Clone,
        columns: &Range<u64>,
        idle: f32,
        mut put: impl FnMut(u64, u64, u16),
    ) -> Option<Fit> {
        let infinite = self.matrix.float.infinite_key();
        let mut keys = Vec::new();
        for row in rows.clone() {
            let is_finite = self.matrix.each_key(row, columns, |key| {
                keys.push(key);
                key < infinite
            });
            if !is_finite {
                return None;
            }
        }
        let mut scales = None;
        let mut nonzero: Vec<Key> = keys.iter().copied().filter(|&key| key > 1).collect();
        if !nonzero.is_empty() {
            let anchoring = spread(&mut nonzero);
            let found = self.scales(&self.elements(&anchoring))?;
            scales = Some(nonzero.iter().try_fold(found, |scales, &key| {
                scales.with(self.candidate, &Rounded::of(self.matrix.float, key))
            })?);
        }
        let anchor = scales.map_or(0.0, |scales| scales.anchor);
        let candidates = scales.map_or_else(|| [idle].into(), |scales| scales.candidates());
        let scale = candidates
            .into_iter()
            .find(|&scale| keys.iter().all(|&key| self.symbol(key, scale).is_some()))?;
        let mut keys = keys.into_iter();
        for row in rows {
            for (column, key) in columns.clone().zip(&mut keys) {
                put(row, column, self.symbol(key, scale).unwrap_or_default());
            }
        }
        Some(Fit { scale, anchor })
    }

    /// Returns the symbol whose product with `scale` rounds to exactly this
    /// element, if there is one.
    fn symbol(&self, key: Key, scale: f32) -> Option<u16> {
        let sign = if key & 1 == 0 { 1.0 } else { -1.0 };
        if key <= 1 {
            return self
                .candidate
                .has_zero()
                .then(|| self.candidate.symbol(0.0 * sign));
        }
        let element = Rounded::of(self.matrix.float, key);
        let ratio = element.value / f64::from(scale);
        // Exact: the values of every grid are single-precision floats.
        #[allow(clippy::cast_possible_truncation)]
        let value = self.candidate.nearest(ratio, element.is_negative) as f32 * sign;
        let is_exact = value != 0.0 && self.matrix.float.key(value * scale) == key;
        is_exact.then(|| self.candidate.symbol(value))
    }
}

/// Returns evenly spaced keys and the largest one, in ascending order.
fn spread(keys: &mut [Key]) -> Vec<Key> {
    let step = keys.len().div_ceil(ANCHORING);
    let mut some: Vec<Key> = keys.iter().copied().step_by(step).collect();
    some.extend(keys.iter().copied().max());
    some.sort_unstable();
    some.dedup();
    some
}

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
    pub fn of(candidate: &CandidateGrid, elements: &[Rounded], anchors: &[f64]) -> Option<Self> {
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
            let nearest = candidate.nearest(expected, first.is_negative);
            if (expected - nearest).abs() > slack * nearest {
                return None;
            }
            let start = Self::new(last, anchor);
            rest.iter()
                .try_fold(start, |scales, element| scales.with(candidate, element))
        })
    }

    fn new(largest: &Rounded, anchor: f64) -> Self {
        Self {
            low: largest.low / anchor,
            high: largest.high / anchor,
            anchor,
        }
    }

    /// Returns the scales that also fit `element`, or `None` if there are none.
    #[inline]
    pub fn with(self, candidate: &CandidateGrid, element: &Rounded) -> Option<Self> {
        let middle = (self.low + self.high) / 2.0;
        let nearest = candidate.nearest(element.value / middle, element.is_negative);
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
        // The floats nearest to the middle on both sides, in case the interval
        // is too narrow to contain a float with few significant bits.
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

/// The most distinct elements that a grid with one-byte symbols can represent:
/// 256 values and −0.
const MAX_KEYS: usize = 257;
const SLOT_BITS: u32 = 10;

#[derive(Clone, Copy, Default)]
struct Slot {
    key: Key,
    /// The group that filled the slot. The slot is free for any other group.
    group: u32,
    symbol: u16,
}

/// A hash table of the distinct elements of one group, reused for every group.
pub struct Distinct {
    slots: Vec<Slot>,
    group: u32,
    keys: Vec<Key>,
}

impl Distinct {
    pub fn new() -> Self {
        Self {
            slots: vec![Slot::default(); 1 << SLOT_BITS],
            group: 0,
            keys: Vec::with_capacity(MAX_KEYS),
        }
    }

    /// Removes all elements, to start another group.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.group += 1;
    }

    /// Adds an element. Returns `false` if there are more than [`MAX_KEYS`]
    /// distinct ones.
    #[inline]
    pub fn insert(&mut self, key: Key) -> bool {
        let slot = self.slot(key);
        let slot = &mut self.slots[slot];
        if slot.group != self.group {
            *slot = Slot {
                key,
                group: self.group,
                symbol: 0,
            };
            self.keys.push(key);
        }
        self.keys.len() <= MAX_KEYS
    }

    /// Returns the distinct elements in ascending order.
    pub fn sorted(&mut self) -> &[Key] {
        self.keys.sort_unstable();
        &self.keys
    }

    /// Sets the symbol of an element that has been inserted.
    pub fn set(&mut self, key: Key, symbol: u16) {
        let slot = self.slot(key);
        self.slots[slot].symbol = symbol;
    }

    /// Returns the symbol of an element that has been inserted.
    #[inline]
    pub fn symbol(&self, key: Key) -> u16 {
        self.slots[self.slot(key)].symbol
    }

    /// Returns the slot that holds `key`, or the free slot to insert it in. At
    /// least three quarters of the slots are free.
    #[inline]
    fn slot(&self, key: Key) -> usize {
        let mut slot = (key.wrapping_mul(0x9e37_79b1) >> (32 - SLOT_BITS)) as usize;
        while self.slots[slot].group == self.group && self.slots[slot].key != key {
            slot = (slot + 1) & ((1 << SLOT_BITS) - 1);
        }
        slot
    }
}
