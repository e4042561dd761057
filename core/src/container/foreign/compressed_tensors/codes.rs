//! The codes of a weight, read row by row.

use alloc::vec::Vec;

use super::bitstring::Layout;
use super::small_float::SmallFloat;

/// Rows of codes, with the value of each code. All values are exact in F32.
pub struct Codes<'a> {
    bytes: &'a [u8],
    row_len_bytes: usize,
    layout: Layout,
    /// The value of each code.
    values: Vec<f32>,
}

impl<'a> Codes<'a> {
    /// Divides `bytes` into `rows` rows of equal length.
    pub fn new(bytes: &'a [u8], rows: usize, layout: Layout, values: Vec<f32>) -> Self {
        Self {
            bytes,
            row_len_bytes: bytes.len() / rows.max(1),
            layout,
            values,
        }
    }

    /// Writes the values of the first elements of row `row`.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        let string = &self.bytes[row * self.row_len_bytes..][..self.row_len_bytes];
        for (place, out) in out.iter_mut().enumerate() {
            *out = self.values[usize::from(self.layout.code(string, place))];
        }
    }
}

/// Returns the values of byte codes that are integers in two's complement.
pub fn signed_bytes() -> Vec<f32> {
    (0..=255u8)
        .map(|code| f32::from(code.cast_signed()))
        .collect()
}

/// Returns the values of codes of `bits` bits, whose code 0 is the most
/// negative integer.
pub fn offset_integers(bits: u8) -> Vec<f32> {
    let half = 1i16 << (bits - 1);
    (-half..half).map(f32::from).collect()
}

/// Returns the values of byte codes of the dtype F8_E4M3 if `float`, else I8.
pub fn byte_values(float: bool) -> Vec<f32> {
    if float {
        SmallFloat::E4M3.values()
    } else {
        signed_bytes()
    }
}
