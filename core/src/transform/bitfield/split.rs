//! Splits floats into planes, in loops that compile to vector instructions.

use super::FloatFormat;
use crate::kernel::{self, Kernel};

/// Number of elements that share a byte of signs.
const GROUP: usize = 8;

/// An element of two or four bytes.
pub trait Item: Copy {
    /// Returns the lowest eight bits of the element shifted right by `shift`.
    fn byte(self, shift: u32) -> u8;

    /// Returns the signs of a group. The sign of the first element is the
    /// highest bit.
    fn signs(group: &[Self; GROUP]) -> u8;
}

impl Item for [u8; 2] {
    #[inline(always)]
    fn byte(self, shift: u32) -> u8 {
        (u16::from_le_bytes(self) >> shift).to_le_bytes()[0]
    }

    #[inline(always)]
    fn signs(group: &[Self; GROUP]) -> u8 {
        let (halves, _) = group.as_flattened().as_chunks::<8>();
        let [high, low] = [halves[0], halves[1]].map(|half| {
            let signs = u64::from_le_bytes(half) >> 15 & 0x0001_0001_0001_0001;
            // Bit 16k moves to 51 - k, and no two bits collide.
            (signs.wrapping_mul(1 << 51 | 1 << 34 | 1 << 17 | 1) >> 48).to_le_bytes()[0] & 15
        });
        high << 4 | low
    }
}

impl Item for [u8; 4] {
    #[inline(always)]
    fn byte(self, shift: u32) -> u8 {
        (u32::from_le_bytes(self) >> shift).to_le_bytes()[0]
    }

    #[inline(always)]
    fn signs(group: &[Self; GROUP]) -> u8 {
        let (pairs, _) = group.as_flattened().as_chunks::<8>();
        pairs.iter().fold(0, |signs, pair| {
            let pair = u64::from_le_bytes(*pair);
            signs << 2 | (pair >> 30 & 2 | pair >> 63).to_le_bytes()[0]
        })
    }
}

/// Writes the bytes `[start, start + out.len())` of plane `plane` to `out`.
pub fn planes<T: Item>(
    format: FloatFormat,
    items: &[T],
    plane: usize,
    start: usize,
    out: &mut [u8],
) {
    kernel::run(Split {
        format,
        items,
        plane,
        start,
        out,
    });
}

/// The arguments of [`planes`].
struct Split<'a, T> {
    format: FloatFormat,
    items: &'a [T],
    plane: usize,
    start: usize,
    out: &'a mut [u8],
}

impl<T: Item> Kernel for Split<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let FloatFormat {
            exponent_bits,
            mantissa_bits,
            ..
        } = self.format;
        let (items, start, out) = (self.items, self.start, self.out);
        match self.plane {
            0 => signs(items, start, out),
            1 => bytes(&items[start..], mantissa_bits, exponent_bits, out),
            _ => mantissas(items, mantissa_bits, start, out),
        }
    }
}

#[inline(always)]
fn signs<T: Item>(items: &[T], start: usize, out: &mut [u8]) {
    let end = items.len().min((start + out.len()) * GROUP);
    let (groups, rest) = items[start * GROUP..end].as_chunks::<GROUP>();
    for (byte, group) in out.iter_mut().zip(groups) {
        *byte = T::signs(group);
    }
    if let (Some(first), Some(byte)) = (rest.first(), out.get_mut(groups.len())) {
        let mut group = [*first; GROUP];
        group[..rest.len()].copy_from_slice(rest);
        // The unused bits of the last byte are zero.
        *byte = T::signs(&group) & !(0xFF >> rest.len());
    }
}

/// Writes `bits` bits of each item, starting at bit `shift`, to a byte of
/// `out`.
#[inline(always)]
fn bytes<T: Item>(items: &[T], shift: u32, bits: u32, out: &mut [u8]) {
    // Specialised loops for constant shifts and masks.
    match (shift, bits) {
        (7, 8) => each(items, out, |item| item.byte(7)),
        (23, 8) => each(items, out, |item| item.byte(23)),
        (0, 7) => each(items, out, |item| item.byte(0) & 0x7F),
        (0, 8) => each(items, out, |item| item.byte(0)),
        _ => {
            let mask = 0xFF >> (8 - bits);
            each(items, out, |item| item.byte(shift) & mask);
        }
    }
}

#[inline(always)]
fn each<T: Item>(items: &[T], out: &mut [u8], byte: impl Fn(T) -> u8) {
    for (to, item) in out.iter_mut().zip(items) {
        *to = byte(*item);
    }
}

/// Extracts a range of the mantissa plane. The plane holds all lowest bytes,
/// followed by all next bytes and so on, so a range may cross from one part
/// into the next.
#[inline(always)]
fn mantissas<T: Item>(items: &[T], mantissa_bits: u32, start: usize, mut out: &mut [u8]) {
    let mut at = start;
    while !out.is_empty() {
        let (part, first) = (at / items.len(), at % items.len());
        let len = out.len().min(items.len() - first);
        let (now, later) = out.split_at_mut(len);
        let shift = 8 * part.to_le_bytes()[0] as u32;
        bytes(&items[first..], shift, (mantissa_bits - shift).min(8), now);
        at += len;
        out = later;
    }
}
