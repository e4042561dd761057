//! Bit fields of floats: signs packed into bits, exponents as bytes, mantissas
//! as bytes (docs/formats/z4ai-frames.md 3.4).

use alloc::format;

use crate::kernel::{self, Kernel};
use crate::{Error, Result, Rule};

mod split;

/// The layout of a float format whose fields can be split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FloatFormat {
    /// The name of the format in a frame.
    pub name: &'static str,
    /// Size of one element in bytes.
    pub item_bytes: usize,
    /// Number of exponent bits.
    pub exponent_bits: u32,
    /// Number of mantissa bits.
    pub mantissa_bits: u32,
}

/// bfloat16, the only format that z4ai writes in `Z4AI` frames.
pub const BFLOAT16: FloatFormat = FloatFormat {
    name: "bfloat16",
    item_bytes: 2,
    exponent_bits: 8,
    mantissa_bits: 7,
};
/// The IEEE half-precision format.
pub const FLOAT16: FloatFormat = FloatFormat {
    name: "float16",
    item_bytes: 2,
    exponent_bits: 5,
    mantissa_bits: 10,
};
/// The IEEE single-precision format.
pub const FLOAT32: FloatFormat = FloatFormat {
    name: "float32",
    item_bytes: 4,
    exponent_bits: 8,
    mantissa_bits: 23,
};

impl FloatFormat {
    /// Returns the format with exactly this name.
    #[must_use]
    pub fn by_name(name: &[u8]) -> Option<Self> {
        [BFLOAT16, FLOAT16, FLOAT32]
            .into_iter()
            .find(|format| format.name.as_bytes() == name)
    }

    /// Returns the size in bytes of one mantissa in its plane.
    #[must_use]
    pub(crate) fn mantissa_bytes(self) -> usize {
        self.mantissa_bits.div_ceil(8) as usize
    }

    /// Returns the lengths in bytes of the sign, exponent and mantissa planes
    /// for `n` elements.
    #[must_use]
    pub fn plane_lens(self, n: usize) -> [usize; 3] {
        [n.div_ceil(8), n, n * self.mantissa_bytes()]
    }

    /// Writes the bytes `[start, start + out.len())` of plane `plane` of
    /// `elements` to `out`. Plane 0 holds signs, 1 exponents, 2 mantissas.
    ///
    /// # Panics
    /// If the range exceeds the plane.
    pub fn split(self, elements: &[u8], plane: usize, start: usize, out: &mut [u8]) {
        match self.item_bytes {
            2 => split::planes(self, elements.as_chunks::<2>().0, plane, start, out),
            _ => split::planes(self, elements.as_chunks::<4>().0, plane, start, out),
        }
    }

    /// Returns the fields of all elements, given the three whole planes of
    /// signs, exponents and mantissas.
    ///
    /// # Panics
    /// If the mantissa plane is too short for the number of exponents.
    #[must_use]
    pub fn fields<'a>(self, [signs, exponents, plane]: [&'a [u8]; 3]) -> Fields<'a> {
        let n = exponents.len();
        let part = |number: usize| match number < self.mantissa_bytes() {
            true => &plane[n * number..n * (number + 1)],
            false => &[],
        };
        Fields {
            signs,
            exponents,
            mantissas: [part(0), part(1), part(2)],
        }
    }

    /// Combines the fields of all elements that fit in `out` into floats.
    ///
    /// # Panics
    /// If the lengths contradict each other; frame parsers have checked them.
    pub fn join(self, fields: &Fields, out: &mut [u8]) -> Result<()> {
        let &Fields {
            signs, exponents, ..
        } = fields;
        let n = exponents.len();
        assert_eq!(out.len(), n * self.item_bytes);
        assert_eq!(signs.len(), n.div_ceil(8));
        let parts = &fields.mantissas[..self.mantissa_bytes()];
        assert!(parts.iter().all(|part| part.len() == n));
        self.check_ranges(signs, exponents, parts[parts.len() - 1])?;
        kernel::run(Join {
            mantissa_bytes: parts.len(),
            fields,
            out,
        });
        Ok(())
    }

    fn check_ranges(self, signs: &[u8], exponents: &[u8], top: &[u8]) -> Result<()> {
        let top_bits = (self.mantissa_bits - 1) % 8 + 1;
        let padding = signs.last().map_or(0, |last| match exponents.len() % 8 {
            0 => 0,
            used => last << used,
        });
        for (what, bits, too_wide) in [
            (
                "exponent",
                self.exponent_bits,
                over(exponents, self.exponent_bits),
            ),
            ("mantissa", top_bits, over(top, top_bits)),
            ("sign padding", 0, padding != 0),
        ] {
            if too_wide {
                return Err(Error::malformed(
                    Rule::FrameFieldRange,
                    format!("a {what} of {} has more than {bits} bits", self.name),
                ));
            }
        }
        Ok(())
    }
}

/// The ranges of the planes that hold some consecutive elements. The first
/// element must be at the start of a byte of signs.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a> {
    /// One bit per element.
    pub signs: &'a [u8],
    /// One byte per element.
    pub exponents: &'a [u8],
    /// One byte per element in each part, starting with the lowest bytes. Parts
    /// that the mantissa does not have are empty.
    pub mantissas: [&'a [u8]; 3],
}

/// Combines fields, whose lengths have been checked, into elements.
struct Join<'a, 'f> {
    mantissa_bytes: usize,
    fields: &'f Fields<'a>,
    out: &'f mut [u8],
}

impl Kernel for Join<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let &Fields {
            signs,
            exponents,
            mantissas: [low, mid, high],
        } = self.fields;
        let out = self.out;
        match self.mantissa_bytes {
            1 => narrow(signs, exponents, low, out.as_chunks_mut().0),
            2 => half(signs, exponents, [low, mid], out.as_chunks_mut().0),
            _ => single(signs, exponents, [low, mid, high], out.as_chunks_mut().0),
        }
    }
}

fn over(bytes: &[u8], bits: u32) -> bool {
    bits < 8 && bytes.iter().fold(0, |all, byte| all | byte) >> bits != 0
}

/// Number of elements that share a byte of signs.
const GROUP: usize = 8;
/// Number of elements that are joined at once.
const TILE: usize = 8 * GROUP;

/// Joins elements of two bytes with mantissas of one byte: bfloat16.
#[inline(always)]
fn narrow(signs: &[u8], exponents: &[u8], low: &[u8], out: &mut [[u8; 2]]) {
    let planes = [exponents, low];
    tiles(signs, planes, out, |signs, [e, low]: [&[u8; TILE]; 2]| {
        [
            core::array::from_fn(|k| e[k] << 7 | low[k]),
            core::array::from_fn(|k| signs[k] | e[k] >> 1),
        ]
    });
}

/// Joins elements of two bytes with mantissas of two bytes: float16.
#[inline(always)]
fn half(signs: &[u8], exponents: &[u8], [low, high]: [&[u8]; 2], out: &mut [[u8; 2]]) {
    let planes = [exponents, low, high];
    tiles(signs, planes, out, |signs, [e, low, high]| {
        [
            *low,
            core::array::from_fn(|k| signs[k] | e[k] << 2 | high[k]),
        ]
    });
}

/// Joins elements of four bytes with mantissas of three bytes: float32.
#[inline(always)]
fn single(signs: &[u8], exponents: &[u8], [low, mid, high]: [&[u8]; 3], out: &mut [[u8; 4]]) {
    let planes = [exponents, low, mid, high];
    tiles(signs, planes, out, |signs, [e, low, mid, high]| {
        [
            *low,
            *mid,
            core::array::from_fn(|k| e[k] << 7 | high[k]),
            core::array::from_fn(|k| signs[k] | e[k] >> 1),
        ]
    });
}

/// Joins elements of `W` bytes from `P` planes. For a tile, `bytes` computes
/// each byte position of the elements from the signs, which are in the top bits
/// of bytes, and the planes.
#[inline(always)]
fn tiles<const P: usize, const W: usize>(
    signs: &[u8],
    planes: [&[u8]; P],
    out: &mut [[u8; W]],
    bytes: impl Fn(&[u8; TILE], [&[u8; TILE]; P]) -> [[u8; TILE]; W],
) {
    let parts = planes.map(|plane| plane.as_chunks::<TILE>());
    let (tiles, rest) = out.as_chunks_mut::<TILE>();
    let (whole, sign_rest) = signs.split_at(tiles.len() * GROUP);
    let (sign_tiles, _) = whole.as_chunks::<GROUP>();
    for (number, (tile, signs)) in tiles.iter_mut().zip(sign_tiles).enumerate() {
        let made = bytes(&spread(signs), parts.map(|(tiles, _)| &tiles[number]));
        for (k, element) in tile.iter_mut().enumerate() {
            *element = core::array::from_fn(|byte| made[byte][k]);
        }
    }
    if rest.is_empty() {
        return;
    }
    // The last tile, padded with zeros.
    let mut signs = [0; GROUP];
    let last = &sign_rest[..rest.len().div_ceil(GROUP)];
    signs[..last.len()].copy_from_slice(last);
    let filled = parts.map(|(_, rest)| {
        let mut tile = [0; TILE];
        tile[..rest.len()].copy_from_slice(rest);
        tile
    });
    let made = bytes(&spread(&signs), filled.each_ref());
    for (k, element) in rest.iter_mut().enumerate() {
        *element = core::array::from_fn(|byte| made[byte][k]);
    }
}

/// Expands bytes of signs into one byte per sign, with the sign in the top bit
/// and starting with the highest bit. It uses multiplication because
/// WebAssembly vectors cannot be shifted by different amounts per lane.
#[inline(always)]
fn spread(signs: &[u8; GROUP]) -> [u8; TILE] {
    let mut out = [0; TILE];
    for (group, &signs) in out.as_chunks_mut::<GROUP>().0.iter_mut().zip(signs) {
        // Bit 7 - k moves to the top of byte k, and no two bits collide.
        let copies = u64::from(signs).wrapping_mul(0x8040_2010_0804_0201);
        *group = (copies & 0x8080_8080_8080_8080).to_le_bytes();
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn planes(format: FloatFormat, elements: &[u8]) -> [Vec<u8>; 3] {
        let lens = format.plane_lens(elements.len() / format.item_bytes);
        core::array::from_fn(|plane| {
            let mut out = vec![0; lens[plane]];
            let cut = lens[plane] / 2;
            let (a, b) = out.split_at_mut(cut);
            format.split(elements, plane, 0, a);
            format.split(elements, plane, cut, b);
            out
        })
    }

    #[test]
    fn the_worked_examples() {
        // docs/formats/z4ai-frames.md 17
        let bf16 = [
            0x0000u16, 0x3F80, 0, 0, 0xBF80, 0x3F80, 0, 0x1234, 0x8000, 0,
        ];
        let bytes: Vec<u8> = bf16.iter().flat_map(|v| v.to_le_bytes()).collect();
        let [sign, exponent, mantissa] = planes(BFLOAT16, &bytes);
        assert_eq!(sign, [0x08, 0x80]);
        assert_eq!(exponent, [0, 0x7F, 0, 0, 0x7F, 0x7F, 0, 0x24, 0, 0]);
        assert_eq!(mantissa, [0, 0, 0, 0, 0, 0, 0, 0x34, 0, 0]);
        let [sign, exponent, mantissa] = planes(FLOAT16, &[0x00, 0x3C, 0x00, 0xC1, 0x66, 0x2E]);
        assert_eq!(
            (sign, exponent, mantissa),
            (
                vec![0x40],
                vec![0x0F, 0x10, 0x0B],
                vec![0, 0, 0x66, 0, 1, 2]
            )
        );
    }

    proptest! {
        #[test]
        fn join_undoes_split(which in 0usize..3, bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let format = [BFLOAT16, FLOAT16, FLOAT32][which];
            let elements = &bytes[..bytes.len() / format.item_bytes * format.item_bytes];
            let [a, b, c] = planes(format, elements);
            let mut out = vec![0; elements.len()];
            format.join(&format.fields([&a, &b, &c]), &mut out).unwrap();
            prop_assert_eq!(out, elements);
        }
    }

    #[test]
    fn values_wider_than_their_field_are_refused() {
        let mut out = [0; 2];
        let wide: [(_, [&[u8]; 3]); 4] = [
            (FLOAT16, [&[0], &[32], &[0, 0]]),
            (FLOAT16, [&[0], &[0], &[0, 4]]),
            (BFLOAT16, [&[0], &[0], &[128]]),
            (BFLOAT16, [&[0x40], &[0], &[0]]),
        ];
        for (format, planes) in wide {
            let refusal = format.join(&format.fields(planes), &mut out);
            assert_eq!(refusal.unwrap_err().rule(), Some(Rule::FrameFieldRange));
        }
    }
}
