//! The transforms of a `Z4AI` frame and the geometry of their planes, which
//! determines the bytes that hold each element (docs/formats/z4ai-frames.md 3.2
//! to 3.4).
//!
//! All other code that reads or writes planes uses this module, so adding a
//! transform takes a change to this file and the arithmetic that it calls.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use crate::transform::bitfield::Fields;
use crate::transform::{FloatFormat, byteplane};
use crate::{Error, Result, Rule};

/// The way a buffer is split into planes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transform {
    /// A single plane, which is the buffer itself.
    Opaque,
    /// One plane per byte of an element, which has the given number of bytes.
    BytePlane(u8),
    /// Three planes: signs, exponents and mantissas.
    BitField(FloatFormat),
}

impl Transform {
    /// Returns the name of the transform, for messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Opaque => "opaque",
            Self::BytePlane(_) => "byte-plane",
            Self::BitField(_) => "bit-field",
        }
    }

    /// Returns the number of planes.
    #[must_use]
    pub fn planes(self) -> usize {
        match self {
            Self::Opaque => 1,
            Self::BytePlane(width) => width.into(),
            Self::BitField(_) => 3,
        }
    }

    /// Returns the size of one element in bytes.
    #[must_use]
    pub fn item_bytes(self) -> usize {
        match self {
            Self::Opaque => 1,
            Self::BytePlane(width) => width.into(),
            Self::BitField(format) => format.item_bytes,
        }
    }

    /// Returns the layout of plane `plane`.
    #[must_use]
    pub fn layout(self, plane: usize) -> PlaneLayout {
        match (self, plane) {
            (Self::BitField(_), 0) => PlaneLayout {
                elements_per_byte: 8,
                ..PlaneLayout::BYTE
            },
            (Self::BitField(format), 2) => PlaneLayout {
                parts: format.mantissa_bytes(),
                ..PlaneLayout::BYTE
            },
            _ => PlaneLayout::BYTE,
        }
    }

    /// Returns the layouts of all planes, in frame order.
    pub fn layouts(self) -> impl Iterator<Item = PlaneLayout> {
        (0..self.planes()).map(move |plane| self.layout(plane))
    }

    /// Returns the name of plane `plane`: `bytes`; `byte 0`, `byte 1` and so on
    /// from the least significant byte; or `sign`, `exponent` and `mantissa`.
    #[must_use]
    pub fn plane_name(self, plane: usize) -> String {
        match self {
            Self::Opaque => "bytes".into(),
            Self::BytePlane(_) => format!("byte {plane}"),
            Self::BitField(_) => match plane {
                0 => "sign".into(),
                1 => "exponent".into(),
                _ => "mantissa".into(),
            },
        }
    }

    /// Returns whether plane `plane` holds only mantissas.
    #[must_use]
    pub(crate) fn is_mantissa(self, plane: usize) -> bool {
        matches!(self, Self::BitField(_)) && plane == 2
    }

    /// Returns the length of each plane in bytes, for a buffer of `len_bytes`
    /// bytes.
    #[must_use]
    pub fn plane_lens(self, len_bytes: usize) -> Vec<usize> {
        let elements = len_bytes / self.item_bytes();
        let len = |layout: PlaneLayout| layout.parts * elements.div_ceil(layout.elements_per_byte);
        self.layouts().map(len).collect()
    }

    /// Returns the number of elements in planes of these lengths. `lens_bytes`
    /// must have one entry per plane of the transform.
    ///
    /// # Errors
    /// [`Rule::FramePlaneLength`] if the lengths contradict each other.
    pub fn elements(self, lens_bytes: &[u64]) -> Result<u64> {
        let refuse = |detail: &'static str| Err(Error::malformed(Rule::FramePlaneLength, detail));
        let mut planes = lens_bytes.iter().enumerate();
        let counting = planes.find(|(plane, _)| self.layout(*plane) == PlaneLayout::BYTE);
        let elements = counting.map_or(0, |(_, &len)| len);
        for (plane, &len) in lens_bytes.iter().enumerate() {
            let layout = self.layout(plane);
            let part_len = layout.part_len_bytes(elements);
            if part_len.checked_mul(layout.parts as u64) != Some(len) {
                return refuse("the lengths of the planes contradict each other");
            }
        }
        match elements.checked_mul(self.item_bytes() as u64) {
            Some(_) => Ok(elements),
            None => refuse("the planes together exceed 64 bits"),
        }
    }

    /// Returns the smallest range of elements that covers the bytes `range` of
    /// the buffer and can be joined on its own, because it begins and ends at a
    /// byte boundary of every plane.
    #[must_use]
    pub(crate) fn joinable(self, range: &Range<u64>, elements: u64) -> Range<u64> {
        let item_bytes = self.item_bytes() as u64;
        let (start, end) = (range.start / item_bytes, range.end.div_ceil(item_bytes));
        if range.is_empty() {
            return start..start;
        }
        let step = self.elements_per_byte() as u64;
        start - start % step..end.next_multiple_of(step).min(elements)
    }

    /// Returns the largest number of elements that share a byte in any plane.
    #[must_use]
    pub(crate) fn elements_per_byte(self) -> usize {
        let layouts = self.layouts().map(|layout| layout.elements_per_byte);
        layouts.max().unwrap_or(1)
    }

    /// Writes the bytes `[start, start + out.len())` of plane `plane` to `out`.
    /// `elements` are the whole elements of the buffer.
    ///
    /// # Panics
    /// If the range exceeds the plane.
    pub fn split(self, elements: &[u8], plane: usize, start: usize, out: &mut [u8]) {
        match self {
            Self::Opaque => out.copy_from_slice(&elements[start..start + out.len()]),
            Self::BytePlane(width) => byteplane::split(elements, width.into(), plane, start, out),
            Self::BitField(format) => format.split(elements, plane, start, out),
        }
    }

    /// Returns the range of the elements' bytes that determines the bytes
    /// `range` of plane `plane`. The elements have `elements_len_bytes` bytes
    /// in total.
    #[must_use]
    pub fn source(
        self,
        plane: usize,
        Range { start, end }: Range<usize>,
        elements_len_bytes: usize,
    ) -> Range<usize> {
        let layout = self.layout(plane);
        let elements = elements_len_bytes / self.item_bytes();
        let part_bytes = elements.div_ceil(layout.elements_per_byte).max(1);
        let part = start / part_bytes;
        if end > (part + 1) * part_bytes {
            return 0..elements_len_bytes;
        }
        let source = |at: usize| {
            let element = (at - part * part_bytes) * layout.elements_per_byte;
            (element * self.item_bytes()).min(elements_len_bytes)
        };
        source(start)..source(end)
    }

    /// Joins the parts of all planes, in frame order, into the elements that
    /// fill `out`.
    ///
    /// # Errors
    /// [`Rule::FrameFieldRange`] if a field has a bit outside its width.
    ///
    /// # Panics
    /// If the lengths contradict each other.
    pub fn join(self, parts: &[&[u8]], out: &mut [u8]) -> Result<()> {
        match (self, parts) {
            (Self::BitField(format), &[signs, exponents, ref mantissas @ ..]) => {
                let mantissa = |part: usize| mantissas.get(part).copied().unwrap_or_default();
                let fields = Fields {
                    signs,
                    exponents,
                    mantissas: [mantissa(0), mantissa(1), mantissa(2)],
                };
                format.join(&fields, out)
            }
            _ => {
                byteplane::join(parts, out);
                Ok(())
            }
        }
    }

    /// Splits whole planes into the parts that [`Transform::join`] takes.
    #[must_use]
    pub fn parts<'a>(self, planes: &[&'a [u8]]) -> Vec<&'a [u8]> {
        let mut parts = Vec::new();
        for (number, plane) in planes.iter().enumerate() {
            let count = self.layout(number).parts;
            let len = plane.len() / count;
            for part in 0..count {
                parts.push(&plane[part * len..(part + 1) * len]);
            }
        }
        parts
    }
}

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
    pub(crate) fn part_len_bytes(self, elements: u64) -> u64 {
        elements.div_ceil(self.elements_per_byte as u64)
    }

    /// Returns the range of the plane's bytes that holds the elements `range`
    /// in part `part`, for a buffer of `n` elements. Bytes shared with
    /// neighbouring elements are included.
    #[must_use]
    pub fn range(self, part: usize, range: &Range<u64>, n: u64) -> Range<u64> {
        let part_start = part as u64 * self.part_len_bytes(n);
        let per_byte = self.elements_per_byte as u64;
        part_start + range.start / per_byte..part_start + range.end.div_ceil(per_byte)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::transform::bitfield::{BFLOAT16, FLOAT32};

    const ALL: [Transform; 4] = [
        Transform::Opaque,
        Transform::BytePlane(4),
        Transform::BitField(BFLOAT16),
        Transform::BitField(FLOAT32),
    ];

    #[test]
    fn what_is_split_is_joined() {
        for transform in ALL {
            let elements: Vec<u8> = (0..77 * 4).map(|i| (i * 37 % 251) as u8).collect();
            let lens = transform.plane_lens(elements.len()).into_iter().enumerate();
            let planes: Vec<Vec<u8>> = lens
                .map(|(plane, len)| {
                    let mut out = vec![0; len];
                    transform.split(&elements, plane, 0, &mut out);
                    out
                })
                .collect();
            let planes: Vec<&[u8]> = planes.iter().map(Vec::as_slice).collect();
            let mut joined = vec![0; elements.len()];
            let parts = transform.parts(&planes);
            transform.join(&parts, &mut joined).expect("fields fit");
            assert_eq!(joined, elements, "{}", transform.name());
        }
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        for transform in ALL {
            let lens: Vec<u64> = transform
                .plane_lens(1000)
                .into_iter()
                .map(|len| len as u64)
                .collect();
            let elements = 1000 / transform.item_bytes() as u64;
            assert_eq!(transform.elements(&lens), Ok(elements));
            for plane in 0..lens.len() {
                let mut other = lens.clone();
                other[plane] += 1;
                let result = transform.elements(&other);
                match transform {
                    Transform::Opaque => assert_eq!(result, Ok(elements + 1)),
                    _ => assert_eq!(
                        result.expect_err("unequal").rule(),
                        Some(Rule::FramePlaneLength)
                    ),
                }
            }
        }
        let huge = [u64::MAX / 2; 4];
        assert!(Transform::BytePlane(4).elements(&huge).is_err());
    }

    #[test]
    fn every_byte_of_a_plane_comes_from_its_source() {
        for transform in ALL {
            let elements: Vec<u8> = (0..64 * 4).map(|i| (i * 91 % 253) as u8).collect();
            for (plane, len) in transform.plane_lens(elements.len()).into_iter().enumerate() {
                for start in 0..len {
                    let source = transform.source(plane, start..start + 1, elements.len());
                    let mut others = elements.clone();
                    for (at, byte) in others.iter_mut().enumerate() {
                        if !source.contains(&at) {
                            *byte = !*byte;
                        }
                    }
                    let [mut a, mut b] = [[0u8]; 2];
                    transform.split(&elements, plane, start, &mut a);
                    transform.split(&others, plane, start, &mut b);
                    assert_eq!(a, b, "{} plane {plane} byte {start}", transform.name());
                }
            }
        }
    }
}
