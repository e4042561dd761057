//! The codes of a weight, row by row.

use alloc::vec::Vec;

use super::bitstring::Layout;
use super::small_float::SmallFloat;

/// Rows of codes and what each of them means. All meanings are exact in F32.
pub struct Codes<'a> {
    bytes: &'a [u8],
    row_len_bytes: usize,
    layout: Layout,
    /// One value for each code.
    values: Vec<f32>,
}

impl<'a> Codes<'a> {
    /// Takes `bytes` as `rows` rows of equal length.
    pub fn new(bytes: &'a [u8], rows: usize, layout: Layout, values: Vec<f32>) -> Self {
        Self {
            bytes,
            row_len_bytes: bytes.len() / rows.max(1),
            layout,
            values,
        }
    }

    /// Values of the first elements of row `row`.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        let string = &self.bytes[row * self.row_len_bytes..][..self.row_len_bytes];
        for (place, out) in out.iter_mut().enumerate() {
            *out = self.values[usize::from(self.layout.code(string, place))];
        }
    }
}

/// Meanings of bytes that are integers in two's complement.
pub fn signed_bytes() -> Vec<f32> {
    (0..=255u8)
        .map(|code| f32::from(code.cast_signed()))
        .collect()
}

/// Returns the values of codes of `bits` bits that count from the most negative
/// integer.
pub fn offset_integers(bits: u8) -> Vec<f32> {
    let half = 1i16 << (bits - 1);
    (-half..half).map(f32::from).collect()
}

/// Meanings of bytes of the dtypes I8 and F8_E4M3.
pub fn byte_values(float: bool) -> Vec<f32> {
    if float {
        SmallFloat::E4M3.values()
    } else {
        signed_bytes()
    }
}
