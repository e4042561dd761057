//! Finds the scale and the symbols of one group.

use alloc::vec::Vec;
use core::ops::Range;

use super::distinct::Distinct;
use super::fit::Scales;
use super::kind::Kind;
use super::sheet::{Key, Rounded, Sheet};

/// The number of elements of a group that choose the anchor for a grid with
/// two-byte symbols. All other elements only narrow the scale.
const ANCHORING: usize = 64;

/// The scale of a group whose elements lie on the grid.
pub struct Fit {
    pub scale: f32,
    /// The grid magnitude of the largest element, or 0 if all elements are
    /// zero.
    pub anchor: f64,
}

/// Fits groups to a grid, one after another, reusing its buffers.
pub struct Fitter<'a> {
    sheet: Sheet<'a>,
    kind: &'a Kind,
    /// The anchors for a positive and for a negative largest element, the most
    /// likely first.
    anchors: [Vec<f64>; 2],
    distinct: Distinct,
}

impl<'a> Fitter<'a> {
    /// Creates a fitter that tries the `likely` anchors before all others.
    pub fn new(sheet: Sheet<'a>, kind: &'a Kind, likely: &[f64]) -> Self {
        let anchors = [false, true].map(|is_negative| {
            let all = kind.anchors(is_negative);
            let first = likely.iter().copied().filter(|anchor| all.contains(anchor));
            let others = all
                .iter()
                .copied()
                .filter(|anchor| !likely.contains(anchor));
            first.chain(others).collect()
        });
        Self {
            sheet,
            kind,
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
        let infinite = self.sheet.float.infinite_key();
        let distinct = &mut self.distinct;
        for row in rows {
            let visit = |key| key < infinite && distinct.insert(key);
            if !self.sheet.each_key(row, columns, visit) {
                return None;
            }
        }
        Some(distinct.sorted())
    }

    /// Returns the scales that fit `elements`, which are in ascending order.
    pub fn scales(&self, elements: &[Rounded]) -> Option<Scales> {
        let largest = elements.last()?;
        let anchors = &self.anchors[usize::from(largest.is_negative)];
        Scales::of(self.kind, elements, anchors)
    }

    /// Returns the elements with these keys, except zeros.
    pub fn elements(&self, keys: &[Key]) -> Vec<Rounded> {
        let nonzero = keys.iter().copied().filter(|&key| key > 1);
        nonzero
            .map(|key| Rounded::of(self.sheet.float, key))
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
        if self.kind.is_small() {
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
            self.sheet.each_key(row, columns, |key| {
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
        let infinite = self.sheet.float.infinite_key();
        let mut keys = Vec::new();
        for row in rows.clone() {
            let is_finite = self.sheet.each_key(row, columns, |key| {
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
                scales.with(self.kind, &Rounded::of(self.sheet.float, key))
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
            return self.kind.has_zero().then(|| self.kind.symbol(0.0 * sign));
        }
        let element = Rounded::of(self.sheet.float, key);
        let ratio = element.value / f64::from(scale);
        // Exact: the values of every grid are single-precision floats.
        #[allow(clippy::cast_possible_truncation)]
        let value = self.kind.nearest(ratio, element.is_negative) as f32 * sign;
        let is_exact = value != 0.0 && self.sheet.float.key(value * scale) == key;
        is_exact.then(|| self.kind.symbol(value))
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
