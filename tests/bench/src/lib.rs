//! The individual stages of packing and reading, on data from fixed seeds. They are
//! timed by `cargo bench`, and `cargo xtask instructions` counts their instructions.
//!
//! All stages run on the calling thread ([`OneThread`]) and use only the public API of
//! the crates.

use std::fmt;

use half::{bf16, f16};
use zstn_core::dtype::Dtype;
use zstn_core::engine::{Engine, PackEngine, ZstdCoding};
use zstn_core::transform::FloatFormat;
use zstn_core::transform::bitfield::{BFLOAT16, FLOAT16, FLOAT32};
use zstn_tests::rng::Rng;

mod extension_frames;
mod files;
mod planes;

pub use extension_frames::extensions;
pub use files::{files, frames, statistics};
pub use planes::{coders, peers, planes, structured};

/// A stage whose input has not been generated yet.
pub struct Stage {
    name: String,
    prepare: Box<dyn Fn(usize) -> Work + Send + Sync>,
}

impl Stage {
    /// Creates a stage. `prepare` gets the length of a tensor in bytes and generates
    /// the input.
    fn new(
        name: impl Into<String>,
        prepare: impl Fn(usize) -> Work + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            prepare: Box::new(prepare),
        }
    }

    /// Returns the name, which consists of the input, the operation and the engine.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Generates the input from a tensor of `tensor_bytes` bytes.
    #[must_use]
    pub fn prepare(&self, tensor_bytes: usize) -> Work {
        (self.prepare)(tensor_bytes)
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A stage with its input, which can be run any number of times.
pub struct Work {
    len_bytes: usize,
    run: Box<dyn FnMut()>,
}

impl Work {
    /// Creates the work; `run` processes `len_bytes` uncoded bytes.
    fn new(len_bytes: usize, run: impl FnMut() + 'static) -> Self {
        Self {
            len_bytes,
            run: Box::new(run),
        }
    }

    /// Returns the number of bytes before encoding or after decoding.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Runs the stage once.
    pub fn run(&mut self) {
        (self.run)();
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "work on {} bytes", self.len_bytes)
    }
}

/// Returns every stage, in the order of packing.
#[must_use]
pub fn all() -> Vec<Stage> {
    [
        planes(),
        structured(),
        coders(),
        frames(),
        extensions(),
        statistics(),
        files(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Encodes and decodes like [`zstn::Engine`], but runs jobs sequentially on the calling
/// thread. Even a pool of one thread has its own thread, which a profiler counts
/// separately.
#[derive(Debug)]
pub struct OneThread(zstn::Engine);

impl OneThread {
    /// Creates the engine.
    ///
    /// # Panics
    /// If no thread can be started.
    #[must_use]
    pub fn new() -> Self {
        Self(zstn::Engine::new(1).expect("a thread"))
    }
}

impl Default for OneThread {
    fn default() -> Self {
        Self::new()
    }
}

impl Engine for OneThread {
    fn zstd_decode(&self, frame: &[u8], out: &mut [u8]) -> Result<(), String> {
        self.0.zstd_decode(frame, out)
    }

    fn map<T, R, F>(&self, items: Vec<T>, job: F) -> Vec<R>
    where
        T: Send,
        R: Send,
        F: Fn(T) -> R + Sync + Send,
    {
        items.into_iter().map(job).collect()
    }
}

impl PackEngine for OneThread {
    fn zstd_encode(&self, input: &[u8], coding: ZstdCoding, out: &mut Vec<u8>) {
        self.0.zstd_encode(input, coding, out);
    }
}

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
