//! The grids that the encoder tries.

use alloc::vec::Vec;

use crate::float::{from_bf16, to_bf16, to_f16};
use crate::frame::lattice::grid::e4m3;

/// The largest magnitude of an integer on the grid.
pub(crate) const MAX_INTEGER: u8 = 127;

/// The 16 levels of NF4, a four-bit "normal float": quantiles of a normal
/// distribution, as defined by the library bitsandbytes.
const NF4: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

/// A grid that the encoder tries.
#[derive(Debug, Clone, PartialEq)]
pub enum CandidateGrid {
    /// Integers with magnitudes up to [`MAX_INTEGER`]. Four-bit floats are on
    /// this grid as well, since twice their values are integers.
    Integers,
    /// The values of a table, in ascending order.
    Table(Vec<f32>),
    /// The values of the format e4m3fn.
    E4m3,
    /// Half-precision floats.
    F16,
    /// bfloat16 floats.
    Bf16,
}

impl CandidateGrid {
    /// Returns the grid of the NF4 levels.
    pub(crate) fn nf4() -> Self {
        Self::Table(NF4.to_vec())
    }

    /// Returns whether symbols are one byte long.
    pub fn is_small(&self) -> bool {
        !matches!(self, Self::F16 | Self::Bf16)
    }

    /// Returns the grid magnitudes to try for the largest element of a group.
    pub fn anchors(&self, is_negative: bool) -> Vec<f64> {
        match self {
            Self::Integers => (1..=MAX_INTEGER).map(f64::from).collect(),
            Self::Table(values) => {
                let values = values.iter().map(|&value| f64::from(value));
                let signed = values.filter(|&value| value != 0.0 && (value < 0.0) == is_negative);
                let mut anchors: Vec<f64> = signed.map(f64::abs).collect();
                anchors.sort_unstable_by(|a, b| b.total_cmp(a));
                anchors
            }
            // The eight largest values, 240 to 448, which have the eight
            // different significands.
            Self::E4m3 => (0x77..=0x7e).rev().map(|code| e4m3(code).into()).collect(),
            Self::F16 => (1024..2048)
                .map(|mantissa| f64::from(mantissa * 32))
                .collect(),
            Self::Bf16 => (128..256).map(f64::from).collect(),
        }
    }

    /// Returns the symbol, of one or two bytes, of a value on the grid. The
    /// symbol of an integer is its two's complement byte; −128 means −0.
    #[allow(clippy::cast_possible_truncation)] // integers up to 127
    pub fn symbol(&self, value: f32) -> u16 {
        let is_negative_zero = value.to_bits() == 1 << 31;
        match self {
            Self::Integers if is_negative_zero => 0x80,
            Self::Integers => u16::from((value as i8).cast_unsigned()),
            Self::Table(values) => {
                let found = values
                    .iter()
                    .position(|entry| entry.to_bits() == value.to_bits());
                // −0 gets the symbol after the last entry; see `write`.
                u16::try_from(found.unwrap_or(values.len())).unwrap_or_default()
            }
            Self::E4m3 => {
                let sign = if value.is_sign_negative() { 0x80 } else { 0 };
                let code = (0..0x7f).find(|&code| e4m3(code) == value.abs());
                u16::from(code.unwrap_or_default() | sign)
            }
            Self::F16 => to_f16(value),
            Self::Bf16 => to_bf16(value),
        }
    }

    /// Returns whether both signs of zero have a symbol.
    pub(crate) fn has_zero(&self) -> bool {
        match self {
            Self::Table(values) => values.contains(&0.0),
            _ => true,
        }
    }

    /// Returns the magnitude on the grid that is nearest to `ratio`, which is
    /// positive, or 0 if `ratio` is beyond the grid.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // integers below 128, or rounding intended
    pub fn nearest(&self, ratio: f64, is_negative: bool) -> f64 {
        match self {
            Self::Integers => match ratio + 0.5 {
                rounded if rounded < 128.0 => f64::from(rounded as u8),
                _ => 0.0,
            },
            Self::Table(values) => {
                let target = if is_negative { -ratio } else { ratio };
                let distance = |value: f32| (f64::from(value) - target).abs();
                let nearest = values.iter().copied().reduce(|best, value| {
                    if distance(value) < distance(best) {
                        value
                    } else {
                        best
                    }
                });
                f64::from(nearest.unwrap_or_default()).abs()
            }
            Self::E4m3 => small_float(ratio, 4, 512.0, 448.0),
            Self::F16 => small_float(ratio, 11, 16_777_216.0, 65504.0),
            // Converted through its bits, because subnormal numbers have fewer
            // significant bits.
            Self::Bf16 => from_bf16(to_bf16(significant(ratio, 8) as f32)).into(),
        }
    }
}

/// Rounds to a float of `bits` significant bits whose subnormal numbers are
/// multiples of 1/`steps`. Returns 0 above `max`.
#[inline]
#[allow(clippy::cast_possible_truncation)] // fewer than 2^11 steps
fn small_float(ratio: f64, bits: u32, steps: f64, max: f64) -> f64 {
    let smallest_normal = f64::from(1 << (bits - 1)) / steps;
    let rounded = match ratio < smallest_normal {
        true => f64::from((ratio * steps + 0.5) as u32) / steps,
        false => significant(ratio, bits),
    };
    if rounded > max { 0.0 } else { rounded }
}

/// Rounds to `bits` significant bits.
#[inline]
fn significant(ratio: f64, bits: u32) -> f64 {
    let dropped = 53 - bits;
    let rounded = ratio.to_bits() + (1 << (dropped - 1));
    f64::from_bits(rounded >> dropped << dropped)
}
