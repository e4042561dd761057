//! Maps the codes of a weight to values (integers, and floats of four, six and
//! eight bits), subtracts zero points, multiplies with scales, and rounds
//! exactly as the package does (docs/formats/compressed-tensors.md 6, 7.3 and
//! 8).
//!
//! The values of codes are exact in F32, so a table of values is enough to
//! decode a code.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use half::{bf16, f16};

use super::bit_packing::CodeLayout;
use super::checkpoint::{TensorSpec, View};
use super::geometry::{ScaleGrid, WeightShape};
use crate::bytes::{buffer, index};
use crate::dtype::Dtype;
use crate::tensor::element_count;
use crate::{Error, Result, Rule};

/// A float type to which the results of the arithmetic are rounded.
trait Real: Copy {
    /// Rounds to nearest, ties to even. A NaN loses its sign and payload, which
    /// differ between processors.
    fn round(value: f32) -> Self;
    fn widen(self) -> f32;
    fn write(self, out: &mut [u8]);
}

macro_rules! real {
    ($type:ty, $nan:expr, $from:expr, $to:expr) => {
        impl Real for $type {
            fn round(value: f32) -> Self {
                if value.is_nan() { $nan } else { $from(value) }
            }
            fn widen(self) -> f32 {
                $to(self)
            }
            fn write(self, out: &mut [u8]) {
                out.copy_from_slice(&self.to_le_bytes());
            }
        }
    };
}

real!(f32, f32::from_bits(0x7FC0_0000), |x| x, |x| x);
real!(f16, f16::from_bits(0x7E00), f16::from_f32, f16::to_f32);
real!(bf16, bf16::from_bits(0x7FC0), bf16::from_f32, bf16::to_f32);

/// Rounds one number to F16, for formats that define their own order of
/// operations.
pub(crate) fn round_f16(value: f32) -> [u8; 2] {
    <f16 as Real>::round(value).to_le_bytes()
}

/// Returns the dense weight `(code - zero) * scale`, where the difference and
/// the product are each rounded to `dtype` (F32, F16 or BF16).
///
/// `scales` and `zeros` are the entries of `grid` and exact in F32. Differences
/// of eight-bit codes are exact in F32 too, and so are their products with a
/// scale of 16 bits, so each result is rounded only once, to `dtype`.
pub fn dequantise(
    dtype: Dtype,
    geometry: &WeightShape,
    codes: &Codes<'_>,
    grid: &ScaleGrid,
    scales: &[f32],
    zeros: Option<&[f32]>,
) -> Result<Vec<u8>> {
    let mut dense = buffer(dense_len_bytes(dtype, geometry))?;
    if !dense.is_empty() {
        let columns = index(geometry.columns);
        let fill = match dtype {
            Dtype::F16 => fill::<f16>,
            Dtype::Bf16 => fill::<bf16>,
            _ => fill::<f32>,
        };
        fill(&mut dense, columns, codes, grid, scales, zeros);
    }
    Ok(dense)
}

/// Returns the length of the dense weight in bytes. It saturates at lengths for
/// which no memory is large enough.
pub(crate) fn dense_len_bytes(dtype: Dtype, geometry: &WeightShape) -> u64 {
    geometry.elements.saturating_mul(dtype.bits() / 8)
}

fn fill<S: Real>(
    dense: &mut [u8],
    columns: usize,
    codes: &Codes<'_>,
    grid: &ScaleGrid,
    scales: &[f32],
    zeros: Option<&[f32]>,
) {
    let mut values = vec![0.0; columns];
    for (row, dense) in dense.chunks_exact_mut(columns * size_of::<S>()).enumerate() {
        codes.row(row, &mut values);
        let entries = grid.row(row);
        let scales = &scales[entries.clone()];
        let zeros = zeros.map(|zeros| &zeros[entries]);
        grid.runs(&mut values, |run, entry| {
            for value in run {
                if let Some(zeros) = zeros {
                    *value = S::round(*value - zeros[entry]).widen();
                }
                *value *= scales[entry];
            }
        });
        for (value, out) in values.iter().zip(dense.chunks_exact_mut(size_of::<S>())) {
            S::round(*value).write(out);
        }
    }
}

/// Rows of codes, with the value of each code. All values are exact in F32.
pub struct Codes<'a> {
    bytes: &'a [u8],
    row_len_bytes: usize,
    layout: CodeLayout,
    /// The value of each code.
    values: Vec<f32>,
}

impl<'a> Codes<'a> {
    /// Divides `bytes` into `rows` rows of equal length.
    pub fn new(bytes: &'a [u8], rows: usize, layout: CodeLayout, values: Vec<f32>) -> Self {
        Self {
            bytes,
            row_len_bytes: bytes.len() / rows.max(1),
            layout,
            values,
        }
    }

    /// Writes the values of the first `out.len()` elements of row `row`.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        let string = &self.bytes[row * self.row_len_bytes..][..self.row_len_bytes];
        for (place, out) in out.iter_mut().enumerate() {
            *out = self.values[usize::from(self.layout.code(string, place))];
        }
    }
}

/// Returns the values of byte codes that are integers in two's complement.
pub(crate) fn signed_bytes() -> Vec<f32> {
    (0..=255u8)
        .map(|code| f32::from(code.cast_signed()))
        .collect()
}

/// Returns the values of codes of `bits` bits, whose code 0 is the most
/// negative integer.
pub(crate) fn offset_integers(bits: u8) -> Vec<f32> {
    let half = 1i16 << (bits - 1);
    (-half..half).map(f32::from).collect()
}

/// Returns the values of byte codes of the dtype F8_E4M3 if `float`, else I8.
pub(crate) fn byte_values(float: bool) -> Vec<f32> {
    if float {
        SmallFloat::E4M3.values()
    } else {
        signed_bytes()
    }
}

/// A float format of at most eight bits, named by its exponent and mantissa
/// bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmallFloat {
    E2M1,
    E2M3,
    /// The format has no infinities; the codes 7F and FF are NaN.
    E4M3,
}

impl SmallFloat {
    pub fn bits(self) -> u8 {
        match self {
            Self::E2M1 => 4,
            Self::E2M3 => 6,
            Self::E4M3 => 8,
        }
    }

    /// Returns the value of each code.
    pub fn values(self) -> Vec<f32> {
        let (mantissa_bits, bias) = match self {
            Self::E2M1 => (1, 1),
            Self::E2M3 => (3, 1),
            Self::E4M3 => (3, 7),
        };
        let half = 1u32 << (self.bits() - 1);
        (0..2 * half)
            .map(|code| {
                let index = code % half;
                if self == Self::E4M3 && index == 0x7F {
                    return f32::NAN;
                }
                let exponent = index >> mantissa_bits;
                let mantissa = index & ((1 << mantissa_bits) - 1);
                let hidden = u32::from(exponent > 0) << mantissa_bits;
                // The product of an integer below 16 and a power of two between
                // 2^-9 and 2^8 is exact.
                let magnitude = (hidden + mantissa) as f32
                    * power_of_two(127 + exponent.max(1) - bias - mantissa_bits);
                if code < half { magnitude } else { -magnitude }
            })
            .collect()
    }
}

/// Returns 2^(e - 127), which is exact in BF16. For 0 this is a subnormal
/// number, for 255 infinity.
pub(crate) fn power_of_two(e: u32) -> f32 {
    match e {
        0 => f32::from_bits(1 << 22),
        e => f32::from_bits(e << 23),
    }
}

/// Returns zero points of one byte each, in the order of the scales.
pub(crate) fn plain_zero_points(view: View<'_>, scale: &TensorSpec) -> Result<Vec<f32>> {
    if view.stored.shape != scale.shape {
        return Err(Error::malformed(
            Rule::CompressedTensorsShape,
            format!(
                "`{}` has shape {:?}, the scales have {:?}",
                view.stored.name, view.stored.shape, scale.shape
            ),
        ));
    }
    let values = byte_values(view.stored.dtype == Dtype::F8E4M3);
    Ok(view
        .bytes
        .iter()
        .map(|&code| values[usize::from(code)])
        .collect())
}

/// Returns zero points that are packed along the columns: each column of 32-bit
/// words is the bit string of one column of zero points.
pub(crate) fn packed_zero_points(
    view: View<'_>,
    geometry: &WeightShape,
    grid: &ScaleGrid,
    layout: CodeLayout,
    bits: u8,
) -> Result<Vec<f32>> {
    let words = layout.words(grid.entry_rows);
    geometry.expect(view.stored, [words, grid.entry_columns])?;
    let values = offset_integers(bits);
    let matrices = element_count(geometry.leading()).unwrap_or_default();
    if matrices == 0 || grid.entry_rows == 0 || grid.entry_columns == 0 {
        return Ok(Vec::new());
    }
    let [matrices, rows, columns, words] =
        [matrices, grid.entry_rows, grid.entry_columns, words].map(index);
    // There are no more zero points than scales, so the file's length bounds
    // this allocation.
    let mut zeros = vec![0.0; matrices * rows * columns];
    let mut string = Vec::with_capacity(words * 4);
    for matrix in 0..matrices {
        let words_of_matrix = &view.bytes[matrix * words * columns * 4..][..words * columns * 4];
        for column in 0..columns {
            string.clear();
            for word in words_of_matrix[column * 4..].chunks(columns * 4) {
                string.extend_from_slice(&word[..4]);
            }
            for row in 0..rows {
                zeros[(matrix * rows + row) * columns + column] =
                    values[usize::from(layout.code(&string, row))];
            }
        }
    }
    Ok(zeros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_go_to_even_and_nan_is_one_pattern() {
        assert_eq!(bf16::round(f32::from_bits(0x3F80_8000)).to_bits(), 0x3F80);
        assert_eq!(bf16::round(f32::from_bits(0x3F81_8000)).to_bits(), 0x3F82);
        assert_eq!(<f16 as Real>::round(65520.0).to_bits(), 0x7C00);
        assert_eq!(<f16 as Real>::round(65519.996).to_bits(), 0x7BFF);
        for bits in [0xFFC0_0000, 0x7F80_0001, 0x7FFF_FFFF] {
            let nan = f32::from_bits(bits);
            assert_eq!(<f32 as Real>::round(nan).to_bits(), 0x7FC0_0000);
            assert_eq!(round_f16(nan), [0x00, 0x7E]);
            assert_eq!(bf16::round(nan).to_bits(), 0x7FC0);
        }
    }

    #[test]
    fn fp4_magnitudes() {
        let values = SmallFloat::E2M1.values();
        assert_eq!(values[..8], [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]);
        assert!(values[8] == 0.0 && values[8].is_sign_negative());
        assert_eq!(values[15], -6.0);
    }

    #[test]
    fn fp6_magnitudes() {
        let values = SmallFloat::E2M3.values();
        for index in 0..32u8 {
            let expected = if index < 8 {
                f32::from(index) / 8.0
            } else {
                (1.0 + f32::from(index % 8) / 8.0) * f32::from(1u8 << (index / 8 - 1))
            };
            assert_eq!(values[usize::from(index)], expected);
            assert_eq!(values[usize::from(index) + 32], -expected);
        }
        assert_eq!(values[31], 7.5);
    }

    #[test]
    fn fp8_ends_at_448() {
        let values = SmallFloat::E4M3.values();
        assert_eq!(values[0x7E], 448.0);
        assert_eq!(values[0x01], 1.0 / 512.0);
        assert_eq!(values[0xB8], -1.0);
        assert!(values[0x7F].is_nan() && values[0xFF].is_nan());
        assert_eq!(values.iter().filter(|v| v.is_nan()).count(), 2);
    }

    #[test]
    fn scales_at_the_ends() {
        assert_eq!(power_of_two(127), 1.0);
        assert_eq!(power_of_two(0) * 2.0, power_of_two(1));
        assert_eq!(power_of_two(254), 2f32.powi(127));
        assert_eq!(power_of_two(255), f32::INFINITY);
    }
}
