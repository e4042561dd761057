//! Reproducible pseudo-random matrices.

use super::matrix::Matrix;

/// A generator of pseudo-random numbers with a fixed seed.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new() -> Self {
        Self(0x243F_6A88_85A3_08D3)
    }

    /// Returns a matrix of values between -1 and 1.
    pub fn matrix(&mut self, rows: usize, columns: usize) -> Matrix {
        let mut matrix = Matrix::zeros(rows, columns);
        matrix.values.fill_with(|| self.value());
        matrix
    }

    fn value(&mut self) -> f64 {
        // A Weyl sequence, mixed by two multiplications.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        let bytes = (mixed ^ mixed >> 31).to_le_bytes();
        f64::from(i16::from_le_bytes([bytes[0], bytes[1]])) / 32768.0
    }
}
