//! Differences of elements, and the precision to which they are rounded.

use alloc::vec::Vec;

use crate::bytes;
use crate::dtype::Dtype;
use crate::float::power_of_two;

/// Two tensors of equal dtype and shape.
#[derive(Debug, Clone, Copy)]
pub struct Elements<'a> {
    pub current: &'a [u8],
    pub base: &'a [u8],
    pub dtype: Dtype,
    pub rows: usize,
    pub columns: usize,
    /// Differences and units are multiplied by this power of two, so that the
    /// mean unit is about 1.
    pub scale: f64,
}

/// The difference of an element from the base, and the unit in the last place
/// of its value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    pub difference: f64,
    /// Infinite if one of the values is not finite, so that the element carries
    /// no weight.
    pub unit: f64,
}

impl Elements<'_> {
    /// Returns the bits of an element of both tensors, converted to float32.
    pub fn bits(&self, at: usize) -> [u32; 2] {
        let read = |bytes: &[u8]| match self.dtype {
            Dtype::F32 => {
                let bytes = bytes[4 * at..].first_chunk().expect("an element");
                u32::from_le_bytes(*bytes)
            }
            _ => {
                let bytes = bytes[2 * at..].first_chunk().expect("an element");
                u32::from(u16::from_le_bytes(*bytes)) << 16
            }
        };
        [read(self.current), read(self.base)]
    }

    /// Sets the scale from the units of these elements. Returns `None` if no
    /// element is finite.
    pub fn scaled(mut self, rows: &[usize], columns: &[usize]) -> Option<Self> {
        let (mut sum, mut count) = (0.0, 0.0);
        for row in rows {
            for column in columns {
                let unit = self.change(row * self.columns + column).unit;
                if unit.is_finite() {
                    sum += unit;
                    count += 1.0;
                }
            }
        }
        let mean: f64 = sum / count;
        if !mean.is_finite() {
            return None;
        }
        // The power of two with the negated exponent of the mean.
        self.scale = f64::from_bits((2046 << 52) - (mean.to_bits() >> 52 << 52));
        Some(self)
    }

    /// Returns the changes of one row in the given columns.
    pub fn row(&self, row: usize, columns: &[usize]) -> Vec<Change> {
        let start = row * self.columns;
        let changes = columns.iter().map(|column| self.change(start + column));
        changes.collect()
    }

    /// Returns the changes of one column in the given rows.
    pub fn column(&self, column: usize, rows: &[usize]) -> Vec<Change> {
        let changes = rows
            .iter()
            .map(|row| self.change(row * self.columns + column));
        changes.collect()
    }

    /// Returns the change of the element at index `at`.
    pub fn change(&self, at: usize) -> Change {
        let [current, base] = self.bits(at);
        let field = |bits: u32| i32::from(u8::try_from(bits >> 23 & 255).expect("eight bits"));
        let exponent = field(current);
        if exponent == 255 || field(base) == 255 {
            return Change {
                difference: 0.0,
                unit: f64::INFINITY,
            };
        }
        let mantissa_bits = if self.dtype == Dtype::F32 { 23 } else { 7 };
        let value = |bits| f64::from(f32::from_bits(bits));
        Change {
            difference: (value(current) - value(base)) * self.scale,
            unit: power_of_two(exponent.max(1) - 127 - mantissa_bits) * self.scale,
        }
    }
}

/// Returns at most `count` evenly spaced numbers below `len`.
pub fn spread(len: usize, count: usize) -> Vec<usize> {
    if len <= count {
        return (0..len).collect();
    }
    let place = |number| bytes::index(number * len as u64 / count as u64);
    (0..count as u64).map(place).collect()
}
