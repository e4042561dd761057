//! Byte planes: plane `j` consists of byte `j` of every element
//! (docs/formats/z4ai-frames.md 3.3).

use crate::kernel::{self, Kernel};

/// Writes the bytes `[start, start + out.len())` of plane `plane` to `out`. The
/// elements are `width` bytes each.
///
/// # Panics
/// If the range exceeds the last whole element.
pub fn split(elements: &[u8], width: usize, plane: usize, start: usize, out: &mut [u8]) {
    let from = &elements[start * width..(start + out.len()) * width];
    match width {
        1 => out.copy_from_slice(from),
        _ => kernel::run(Split {
            from,
            width,
            plane,
            out,
        }),
    }
}

struct Split<'a> {
    from: &'a [u8],
    width: usize,
    plane: usize,
    out: &'a mut [u8],
}

impl Kernel for Split<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self {
            from,
            width,
            plane,
            out,
        } = self;
        // Fixed widths let the compiler vectorise the strided access.
        match width {
            2 => split_pairs(from, plane, out),
            4 => split_quads(from, plane, out),
            8 => split_fixed::<8>(from, plane, out),
            _ => {
                for (to, element) in out.iter_mut().zip(from.chunks_exact(width)) {
                    *to = element[plane];
                }
            }
        }
    }
}

// Compilers turn shifts of words into vector instructions, but not selections
// of bytes.
#[inline(always)]
fn split_pairs(from: &[u8], plane: usize, out: &mut [u8]) {
    for (to, pair) in out.iter_mut().zip(from.as_chunks::<2>().0) {
        *to = (u16::from_le_bytes(*pair) >> (8 * plane)).to_le_bytes()[0];
    }
}

#[inline(always)]
fn split_quads(from: &[u8], plane: usize, out: &mut [u8]) {
    for (to, quad) in out.iter_mut().zip(from.as_chunks::<4>().0) {
        *to = (u32::from_le_bytes(*quad) >> (8 * plane)).to_le_bytes()[0];
    }
}

#[inline(always)]
fn split_fixed<const W: usize>(from: &[u8], plane: usize, out: &mut [u8]) {
    assert!(plane < W);
    for (to, element) in out.iter_mut().zip(from.as_chunks::<W>().0) {
        *to = element[plane];
    }
}

/// Interleaves `planes`, which all have the same length, into `out`.
///
/// # Panics
/// If `out` is not as long as all planes together.
pub fn join(planes: &[&[u8]], out: &mut [u8]) {
    assert_eq!(out.len(), planes.iter().map(|p| p.len()).sum::<usize>());
    match planes {
        [] => {}
        [only] => out.copy_from_slice(only),
        _ => kernel::run(Join { planes, out }),
    }
}

/// The length in bytes of the parts of the output that are filled one after another.
const JOINED_BYTES: usize = 16 << 10;

struct Join<'a> {
    planes: &'a [&'a [u8]],
    out: &'a mut [u8],
}

impl Kernel for Join<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let out = self.out;
        match self.planes {
            [a, b] => {
                for ((to, &a), &b) in out.as_chunks_mut::<2>().0.iter_mut().zip(*a).zip(*b) {
                    *to = [a, b];
                }
            }
            [a, b, c, d] => {
                let to = out.as_chunks_mut::<4>().0.iter_mut();
                for ((((to, &a), &b), &c), &d) in to.zip(*a).zip(*b).zip(*c).zip(*d) {
                    *to = [a, b, c, d];
                }
            }
            many => {
                let width = many.len();
                // Blocks of quantised elements have hundreds of planes, so the output is
                // filled in parts that fit into the cache.
                let rows = (JOINED_BYTES / width).max(1);
                for (part, out) in out.chunks_mut(rows * width).enumerate() {
                    for (j, plane) in many.iter().enumerate() {
                        let places = out.iter_mut().skip(j).step_by(width);
                        for (to, &byte) in places.zip(&plane[part * rows..]) {
                            *to = byte;
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn join_undoes_split(width in 1usize..=17, bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            let n = bytes.len() / width;
            let elements = &bytes[..n * width];
            let planes: Vec<Vec<u8>> = (0..width).map(|j| {
                let mut plane = vec![0; n];
                let cut = n / 3;
                let (a, b) = plane.split_at_mut(cut);
                split(elements, width, j, 0, a);
                split(elements, width, j, cut, b);
                plane
            }).collect();
            for (j, plane) in planes.iter().enumerate() {
                for (i, &byte) in plane.iter().enumerate() {
                    prop_assert_eq!(byte, elements[i * width + j]);
                }
            }
            let views: Vec<&[u8]> = planes.iter().map(Vec::as_slice).collect();
            let mut out = vec![0; elements.len()];
            join(&views, &mut out);
            prop_assert_eq!(out, elements);
        }
    }
}
