//! The positions of elements within a plane.

use core::ops::Range;

/// The layout of one plane: one or more parts of equal length. Every part holds
/// a byte or a bit of every element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaneLayout {
    /// Number of parts of the plane.
    pub parts: usize,
    /// Number of elements in a byte of a part: 1, or 8 if each element has one
    /// bit.
    pub elements_per_byte: usize,
}

impl PlaneLayout {
    /// One part with a byte of every element.
    pub(super) const BYTE: Self = Self {
        parts: 1,
        elements_per_byte: 1,
    };

    /// Returns the length of a part in bytes if the buffer has `elements`
    /// elements.
    #[must_use]
    pub fn part_len_bytes(self, elements: u64) -> u64 {
        elements.div_ceil(self.elements_per_byte as u64)
    }

    /// Returns the range of the plane's bytes that holds `range` in part
    /// `part`, for a buffer of `n` elements. Bytes shared with neighbouring
    /// elements are included.
    #[must_use]
    pub fn range(self, part: usize, range: &Range<u64>, n: u64) -> Range<u64> {
        let part_start = part as u64 * self.part_len_bytes(n);
        let per_byte = self.elements_per_byte as u64;
        part_start + range.start / per_byte..part_start + range.end.div_ceil(per_byte)
    }
}
