//! Tensors that resemble weights: normally distributed values with a separate scale per
//! row.

use half::{bf16, f16};
use zstn_core::dtype::Dtype;
use zstn_core::transform::FloatFormat;
use zstn_core::transform::bitfield::{BFLOAT16, FLOAT16, FLOAT32};

use zstn_tests::rng::Rng;

/// Number of elements in a row.
pub const ROW: usize = 1024;

const SEED: u64 = 17;
/// Size of the table of normal values, from which all elements are drawn by a 16-bit
/// index.
const VALUES: usize = 1 << 16;
const DEVIATION: f64 = 0.02;
/// The median absolute value, in units of the standard deviation.
const MEDIAN: f64 = 0.6745;
/// Standard deviation of the logarithm of a row's scale. It keeps the exponents far
/// from the point at which Huffman codes and rANS cost the packer the same; close to
/// it, small changes would change the codec.
const ROW_SPREAD: f64 = 0.5;

/// A float format of the tensors.
#[derive(Debug, Clone, Copy)]
pub struct Float {
    /// Name of the dtype in safetensors.
    pub name: &'static str,
    /// The dtype passed to the encoder's choice.
    pub dtype: Dtype,
    /// The bit layout passed to the transforms.
    pub format: FloatFormat,
}

/// The format bfloat16, with 8 exponent bits and 7 mantissa bits.
pub const BF16: Float = Float {
    name: "BF16",
    dtype: Dtype::Bf16,
    format: BFLOAT16,
};
/// The IEEE 754 format binary16 (half precision).
pub const F16: Float = Float {
    name: "F16",
    dtype: Dtype::F16,
    format: FLOAT16,
};
/// The IEEE 754 format binary32 (single precision).
pub const F32: Float = Float {
    name: "F32",
    dtype: Dtype::F32,
    format: FLOAT32,
};

impl Float {
    /// Returns a tensor of `len_bytes` bytes, which must be a whole number of elements.
    #[must_use]
    pub fn tensor(self, len_bytes: usize) -> Vec<u8> {
        self.normal(len_bytes, ROW_SPREAD, |value| value)
    }

    /// Returns a tensor whose rows all have the same scale.
    #[must_use]
    pub fn tensor_of_one_scale(self, len_bytes: usize) -> Vec<u8> {
        self.normal(len_bytes, 0.0, |value| value)
    }

    /// Returns a tensor of 15 distinct values, like four-bit weights stored as floats.
    #[must_use]
    pub fn tensor_of_few_values(self, len_bytes: usize) -> Vec<u8> {
        let step = DEVIATION / 2.5;
        self.normal(len_bytes, 0.0, |value| {
            (value / step).round().clamp(-7.0, 7.0) * step
        })
    }

    /// Returns a tensor whose smaller half is pruned to zero.
    #[must_use]
    pub fn tensor_half_zero(self, len_bytes: usize) -> Vec<u8> {
        self.normal(len_bytes, ROW_SPREAD, |value| {
            if value.abs() < MEDIAN * DEVIATION {
                0.0
            } else {
                value
            }
        })
    }

    /// Generates a tensor; `made` maps normally distributed values to the values of the
    /// tensor.
    fn normal(self, len_bytes: usize, row_spread: f64, made: impl Fn(f64) -> f64) -> Vec<u8> {
        let mut rng = Rng(SEED);
        // Drawing from a table is several times as fast as computing each value, which
        // matters under a profiler.
        let mut values: Vec<f64> = (0..VALUES).map(|_| rng.normal(DEVIATION)).collect();
        values.iter_mut().for_each(|value| *value = made(*value));
        let mut out = Vec::with_capacity(len_bytes);
        let mut scale = 1.0;
        for element in 0..len_bytes / self.format.item_bytes {
            if element % ROW == 0 {
                scale = rng.normal(row_spread).exp();
            }
            let [low, high, ..] = rng.next_u64().to_le_bytes();
            let value = values[usize::from(u16::from_le_bytes([low, high]))];
            #[allow(clippy::cast_possible_truncation)] // that is what f32 is
            let value = (scale * value) as f32;
            match self.dtype {
                Dtype::Bf16 => out.extend(bf16::from_f32(value).to_le_bytes()),
                Dtype::F16 => out.extend(f16::from_f32(value).to_le_bytes()),
                _ => out.extend(value.to_le_bytes()),
            }
        }
        out
    }

    /// Splits `tensor` into signs, exponents and mantissas.
    #[must_use]
    pub fn planes(self, tensor: &[u8]) -> [Vec<u8>; 3] {
        let mut planes = self
            .format
            .plane_lens(tensor.len() / self.format.item_bytes)
            .map(|len| vec![0; len]);
        for (number, plane) in planes.iter_mut().enumerate() {
            self.format.split(tensor, number, 0, plane);
        }
        planes
    }
}
