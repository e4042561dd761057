//! Where the elements are in a plane.

use core::ops::Range;

/// The layout of one plane: one or more parts of equal length, each of which
/// holds a byte or a bit of every element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaneLayout {
    /// Number of parts.
    pub parts: usize,
    /// Elements in a byte of a part: 1, or 8 where each has one bit.
    pub elements_per_byte: usize,
}

impl PlaneLayout {
    /// One part with a byte of every element.
    pub(super) const BYTE: Self = Self {
        parts: 1,
        elements_per_byte: 1,
    };

    /// Returns the length of a part in bytes, for a buffer of that many
    /// elements.
    #[must_use]
    pub fn part_len_bytes(self, elements: u64) -> u64 {
        elements.div_ceil(self.elements_per_byte as u64)
    }

    /// Returns the bytes of the plane that hold the elements `range`, of `n`:
    /// a range of every part.
    pub fn ranges(self, range: &Range<u64>, n: u64) -> impl Iterator<Item = Range<u64>> {
        let part_len = self.part_len_bytes(n);
        let per_byte = self.elements_per_byte as u64;
        let (start, end) = (range.start / per_byte, range.end.div_ceil(per_byte));
        let count = if range.is_empty() { 0 } else { self.parts };
        (0..count as u64).map(move |part| part * part_len + start..part * part_len + end)
    }
}
