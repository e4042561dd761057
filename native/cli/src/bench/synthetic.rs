//! The checkpoint that `zstn bench --files` packs unless it is given another one.

use std::io::{BufWriter, Write};
use std::path::Path;

use half::bf16;
use serde_json::{Map, json};
use zstn::{Error, Result};

/// The length of a row in elements, as of a model of width 1024.
const ROW: usize = 1024;
const ROW_BYTES: u64 = 2 * ROW as u64;
/// The maximum length of a tensor in bytes.
const MAX_TENSOR_BYTES: u64 = 32 << 20;
/// The number of tensors of a checkpoint whose tensors are shorter than the maximum.
const TENSORS: u64 = 64;

/// Writes a safetensors file of about `len_bytes` bytes to `path`: bfloat16 matrices of
/// equal shape, whose values are normally distributed with another deviation in each
/// row. Its bytes depend on `len_bytes` alone.
pub fn write(path: &Path, len_bytes: u64) -> Result<()> {
    let tensor_bytes = len_bytes.div_ceil(TENSORS).min(MAX_TENSOR_BYTES);
    let rows = (tensor_bytes / ROW_BYTES).max(1);
    let tensors = (len_bytes / (rows * ROW_BYTES)).max(1);
    let failed = |error| Error::io(format!("write {}", path.display()), error);
    let mut file = BufWriter::with_capacity(1 << 20, std::fs::File::create(path).map_err(failed)?);
    let header = header(tensors, rows);
    let len = (header.len() as u64).to_le_bytes();
    file.write_all(&len).map_err(failed)?;
    file.write_all(header.as_bytes()).map_err(failed)?;
    let mut random = Random(0x5eed);
    let mut row = Vec::with_capacity(2 * ROW);
    for _ in 0..tensors * rows {
        let deviation = 0.02 * (0.4 * random.normal()).exp();
        row.clear();
        for _ in 0..ROW {
            let value = bf16::from_f32(deviation * random.normal());
            row.extend_from_slice(&value.to_le_bytes());
        }
        file.write_all(&row).map_err(failed)?;
    }
    file.into_inner()
        .map_err(|error| failed(error.into_error()))?
        .sync_all()
        .map_err(failed)
}

fn header(tensors: u64, rows: u64) -> String {
    let len_bytes = rows * ROW_BYTES;
    let entry = |number: u64| {
        let tensor = json!({
            "dtype": "BF16",
            "shape": [rows, ROW],
            "data_offsets": [number * len_bytes, (number + 1) * len_bytes],
        });
        (format!("layers.{number}.weight"), tensor)
    };
    let mut text =
        serde_json::Value::Object((0..tensors).map(entry).collect::<Map<_, _>>()).to_string();
    let padding = text.len().next_multiple_of(8) - text.len();
    text.extend(std::iter::repeat_n(' ', padding));
    text
}

/// A generator of numbers that only look random.
struct Random(u64);

impl Random {
    /// Returns the next number of the sequence `SplitMix64`.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number of mean 0 and deviation 1 that is almost normally distributed:
    /// a sum of four uniform numbers.
    fn normal(&mut self) -> f32 {
        /// The mean and the deviation of the sum of four whole numbers below 65,536.
        const MEAN: f32 = 131_070.0;
        const DEVIATION: f32 = 37_837.0;
        let [a, b, c, d, e, f, g, h] = self.next().to_le_bytes();
        let numbers = [[a, b], [c, d], [e, f], [g, h]];
        let sum: f32 = numbers
            .map(|it| f32::from(u16::from_le_bytes(it)))
            .iter()
            .sum();
        (sum - MEAN) / DEVIATION
    }
}
