//! The float formats of differences: the position of their fields, and integers
//! that are ordered like their values (docs/formats/zxd1.md 4 and 5).

use crate::float::from_f16;

/// Evaluates an expression with `F` as the [`Float`] of an element type.
macro_rules! for_float {
    ($element:expr, $F:ident => $body:expr) => {
        match $element {
            crate::float::FloatType::Bf16 => {
                type $F = crate::frame::difference::float_format::Bf16;
                $body
            }
            crate::float::FloatType::F16 => {
                type $F = crate::frame::difference::float_format::F16;
                $body
            }
            crate::float::FloatType::F32 => {
                type $F = crate::frame::difference::float_format::F32;
                $body
            }
        }
    };
}
pub(super) use for_float;

/// A float format, with the positions of its fields.
pub(super) trait Float {
    /// An unsigned integer with the width of the float.
    type Word: Word;
    const MANTISSA_BITS: u32;
    const EXPONENT_MASK: u32;
    const BIAS: i32;

    /// Returns the exponent field.
    #[inline(always)]
    fn exponent(word: Self::Word) -> u32 {
        word.to_u32() >> Self::MANTISSA_BITS & Self::EXPONENT_MASK
    }

    /// Returns the top six bits of the mantissa.
    #[inline(always)]
    fn mantissa_top(word: Self::Word) -> usize {
        (word.to_u32() >> (Self::MANTISSA_BITS - 6) & 63) as usize
    }

    /// Returns the value, or 0 for an infinity or a NaN.
    fn value(word: Self::Word) -> f64;
}

pub(super) struct Bf16;
pub(super) struct F16;
pub(super) struct F32;

impl Float for Bf16 {
    type Word = u16;
    const MANTISSA_BITS: u32 = 7;
    const EXPONENT_MASK: u32 = 0xFF;
    const BIAS: i32 = 127;

    #[inline(always)]
    fn value(word: u16) -> f64 {
        F32::value(u32::from(word) << 16)
    }
}

impl Float for F16 {
    type Word = u16;
    const MANTISSA_BITS: u32 = 10;
    const EXPONENT_MASK: u32 = 0x1F;
    const BIAS: i32 = 15;

    #[inline(always)]
    fn value(word: u16) -> f64 {
        let value = f64::from(from_f16(word));
        if Self::exponent(word) == Self::EXPONENT_MASK {
            0.0
        } else {
            value
        }
    }
}

impl Float for F32 {
    type Word = u32;
    const MANTISSA_BITS: u32 = 23;
    const EXPONENT_MASK: u32 = 0xFF;
    const BIAS: i32 = 127;

    #[inline(always)]
    fn value(word: u32) -> f64 {
        let value = f64::from(f32::from_bits(word));
        if Self::exponent(word) == Self::EXPONENT_MASK {
            0.0
        } else {
            value
        }
    }
}

/// The bits of an element as an unsigned integer. Arithmetic wraps around at
/// its width.
pub(super) trait Word: Copy + Default + PartialEq + Send + Sync {
    /// Returns the low bits as an integer of this type.
    fn truncate(bits: u64) -> Self;

    fn to_u32(self) -> u32;

    /// Returns the elements of `bytes`, which are little-endian.
    fn words(bytes: &[u8]) -> impl ExactSizeIterator<Item = Self> + '_;

    /// Writes the elements whose differences from `predicted` have the folded
    /// values `values`.
    fn apply(predicted: &[u8], values: &[Self], out: &mut [u8]);

    /// Returns the folded value of the difference of `current` from
    /// `predicted`.
    fn difference(predicted: Self, current: Self) -> Self;

    /// Adds `mean` to the difference with the folded value `self`, and returns
    /// the folded value of the sum.
    fn add(self, mean: i32) -> Self;

    /// Returns the difference whose folded value is `self`.
    fn unfolded(self) -> i32;
}

macro_rules! word {
    ($word:ident, $signed:ident, $len_bytes:literal) => {
        impl Word for $word {
            #[inline(always)]
            #[allow(clippy::cast_possible_truncation)]
            fn truncate(bits: u64) -> Self {
                bits as Self
            }

            #[inline(always)]
            fn to_u32(self) -> u32 {
                self.into()
            }

            #[inline(always)]
            fn words(bytes: &[u8]) -> impl ExactSizeIterator<Item = Self> + '_ {
                let (words, _) = bytes.as_chunks::<$len_bytes>();
                words.iter().map(|bytes| Self::from_le_bytes(*bytes))
            }

            #[inline(always)]
            fn apply(predicted: &[u8], values: &[Self], out: &mut [u8]) {
                let (out, _) = out.as_chunks_mut::<$len_bytes>();
                let elements = Self::words(predicted).zip(values).zip(out);
                for ((predicted, &value), out) in elements {
                    let negative = sign(predicted);
                    let step = (unfold(value) ^ negative).wrapping_sub(negative);
                    let order = (predicted ^ negative >> 1).wrapping_add(step);
                    *out = (order ^ sign(order) >> 1).to_le_bytes();
                }

                /// Returns all ones for a negative number and 0 for any other.
                #[inline(always)]
                fn sign(word: $word) -> $word {
                    (word.cast_signed() >> ($word::BITS - 1)).cast_unsigned()
                }
            }

            #[inline(always)]
            fn difference(predicted: Self, current: Self) -> Self {
                let sign = |word: Self| (word.cast_signed() >> (Self::BITS - 1)).cast_unsigned();
                let order = |word: Self| word ^ sign(word) >> 1;
                let step = order(current).wrapping_sub(order(predicted));
                let negative = sign(predicted);
                fold((step ^ negative).wrapping_sub(negative))
            }

            #[inline(always)]
            fn add(self, mean: i32) -> Self {
                let mean = Self::truncate(i64::from(mean).cast_unsigned());
                fold(unfold(self).wrapping_add(mean))
            }

            #[inline(always)]
            fn unfolded(self) -> i32 {
                unfold(self).cast_signed().into()
            }
        }

        const _: () = assert!($word::BITS == $signed::BITS);
    };
}

/// Maps differences to folded values and back: 0, −1, 1, −2, … become 0, 1, 2,
/// 3, ….
macro_rules! fold {
    ($($word:ident)*) => {
        trait Fold {
            fn fold(self) -> Self;
            fn unfold(self) -> Self;
        }
        $( impl Fold for $word {
            #[inline(always)]
            fn fold(self) -> Self {
                self << 1 ^ (self.cast_signed() >> (Self::BITS - 1)).cast_unsigned()
            }

            #[inline(always)]
            fn unfold(self) -> Self {
                self >> 1 ^ (self & 1).wrapping_neg()
            }
        } )*
    };
}

fold!(u16 u32);

#[inline(always)]
fn fold<W: Fold>(difference: W) -> W {
    difference.fold()
}

#[inline(always)]
fn unfold<W: Fold>(value: W) -> W {
    value.unfold()
}

word!(u16, i16, 2);
word!(u32, i32, 4);

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// The order of docs/formats/zxd1.md 4, computed with integers that do not
    /// wrap.
    fn order(x: i64, bits: u32) -> i64 {
        let magnitude = x & ((1 << (bits - 1)) - 1);
        if x >> (bits - 1) == 0 {
            x
        } else {
            -magnitude - 1
        }
    }

    #[test]
    fn the_order_is_that_of_the_floats() {
        let finite = (0..=u16::MAX).filter(|&word| Bf16::exponent(word) < 255);
        let mut words: Vec<u16> = finite.collect();
        words.sort_by_key(|&word| order(word.into(), 16));
        // The two zeros are equal as floats.
        assert!(words.is_sorted_by_key(|&word| f32::from_bits(u32::from(word) << 16)));
        let orders = [0, 0x8000, 0x3F80, 0xBF80].map(|word| order(word, 16));
        assert_eq!(orders, [0, -1, 16256, -16257]);
    }

    /// Steps 1, 3 and 4 of docs/formats/zxd1.md 5.
    fn expected(predicted: i64, value: i64, bits: u32) -> i64 {
        let difference = if value % 2 == 0 {
            value / 2
        } else {
            -(value + 1) / 2
        };
        let step = if predicted >> (bits - 1) == 0 {
            difference
        } else {
            -difference
        };
        let half = 1 << (bits - 1);
        let moved = (order(predicted, bits) + step + half).rem_euclid(2 * half) - half;
        if moved >= 0 {
            moved
        } else {
            half | (-moved - 1)
        }
    }

    /// Zero, subnormals, the least normal number, one, the largest number,
    /// infinity and NaNs, without the sign.
    const EDGES: [u16; 9] = [0, 1, 0x007F, 0x0080, 0x3F80, 0x7F7F, 0x7F80, 0x7F81, 0x7FFF];

    #[test]
    fn values_lead_from_each_edge_to_every_element() {
        for edge in EDGES.map(|edge| [edge, edge | 0x8000]).concat() {
            let values: Vec<u16> = (0..=u16::MAX).collect();
            let predicted = edge.to_le_bytes().repeat(values.len());
            let mut out = alloc::vec![0; predicted.len()];
            u16::apply(&predicted, &values, &mut out);
            for (value, word) in values.into_iter().zip(u16::words(&out)) {
                let truth = expected(edge.into(), value.into(), 16);
                assert_eq!(i64::from(word), truth, "{edge:#x} {value}");
                assert_eq!(u16::difference(edge, word), value, "{edge:#x} {word:#x}");
            }
        }
    }

    #[test]
    fn values_of_32_bits_do_as_well() {
        let edges = EDGES.map(|edge| [edge, edge | 0x8000]).concat();
        let words = edges.iter().flat_map(|edge| {
            let word = u32::from(*edge) << 16;
            [word, word | 1, word | 0xFFFF, word | 0x8000]
        });
        let words: Vec<u32> = words.collect();
        for &predicted in &words {
            for &value in &words {
                for value in [value, value.swap_bytes()] {
                    let mut out = [0; 4];
                    u32::apply(&predicted.to_le_bytes(), &[value], &mut out);
                    let word = u32::from_le_bytes(out);
                    let truth = expected(predicted.into(), value.into(), 32);
                    assert_eq!(i64::from(word), truth, "{predicted:#x} {value:#x}");
                    assert_eq!(u32::difference(predicted, word), value);
                }
            }
        }
    }

    #[test]
    fn means_move_differences_and_back() {
        for value in [0, 1, 2, 3, 998, u32::MAX - 1, u32::MAX] {
            for mean in [0, 1, -1, 998, i32::MAX, i32::MIN] {
                let moved = value.add(mean);
                assert_eq!(moved.add(mean.wrapping_neg()), value);
                assert_eq!(moved.unfolded(), value.unfolded().wrapping_add(mean));
            }
        }
        let unfolded = [0u32, 1, 2, 3, 4].map(Word::unfolded);
        assert_eq!(unfolded, [0, -1, 1, -2, 2]);
        assert_eq!([3u16, 4].map(Word::unfolded), [-2, 2]);
    }

    #[test]
    fn values_of_floats() {
        assert_eq!(Bf16::value(0xBF80), -1.0);
        assert_eq!(F16::value(0x3C00), 1.0);
        assert_eq!(F16::value(0x8001), -f64::powi(2.0, -24));
        assert_eq!(F16::value(0x7BFF), 65504.0);
        assert_eq!(F32::value(1), f64::powi(2.0, -149));
        for word in [0x7C00, 0xFC01] {
            assert_eq!(F16::value(word), 0.0);
        }
        assert_eq!((Bf16::value(0x7F80), F32::value(0xFFC0_0000)), (0.0, 0.0));
    }
}
