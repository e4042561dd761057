//! Multiplies codes with scales, and rounds exactly as the package does
//! (docs/formats/compressed-tensors.md 6 and 8).

use alloc::vec;
use alloc::vec::Vec;

use half::{bf16, f16};

use super::codes::Codes;
use super::geometry::Geometry;
use super::grid::Grid;
use crate::Result;
use crate::bytes::{buffer, index};
use crate::dtype::Dtype;

/// A dtype for the arithmetic.
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
pub fn round_f16(value: f32) -> [u8; 2] {
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
    geometry: &Geometry,
    codes: &Codes<'_>,
    grid: &Grid,
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
pub fn dense_len_bytes(dtype: Dtype, geometry: &Geometry) -> u64 {
    geometry.elements.saturating_mul(dtype.bits() / 8)
}

fn fill<S: Real>(
    dense: &mut [u8],
    columns: usize,
    codes: &Codes<'_>,
    grid: &Grid,
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
}
