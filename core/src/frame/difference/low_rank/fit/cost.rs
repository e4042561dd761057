//! Estimates the cost of coding the differences from a prediction.

use alloc::vec;
use alloc::vec::Vec;

use crate::dtype::Dtype;
use crate::entropy::histogram::entropy_bits;
use crate::frame::difference::low_rank::predict::{bf16_bits, f32_bits};

use super::block::Block;
use super::elements::{Elements, spread};

/// Number of rows that are predicted for an estimate.
const ROWS: usize = 48;
/// Differences whose folded value is below this have a symbol of their own;
/// larger ones share one symbol per bit length.
const DIRECT: u32 = 16;
const SYMBOLS: usize = 64;

/// The elements of some rows, as bits of float32.
pub struct Sample {
    /// The indices of these rows in the block.
    pub rows: Vec<usize>,
    bits: Vec<[u32; 2]>,
    dtype: Dtype,
    /// Number of elements of the matrix per element of the sample.
    weight: f64,
}

impl Sample {
    pub fn new(elements: &Elements, block: &Block) -> Self {
        let rows = spread(block.rows.len(), ROWS);
        let mut bits = Vec::with_capacity(rows.len() * block.columns.len());
        for row in &rows {
            let start = block.rows[*row] * elements.columns;
            bits.extend(
                block
                    .columns
                    .iter()
                    .map(|column| elements.bits(start + column)),
            );
        }
        Self {
            weight: elements.rows as f64 * elements.columns as f64 / bits.len() as f64,
            rows,
            bits,
            dtype: elements.dtype,
        }
    }

    /// Returns the expected number of bits to code the whole matrix if the base
    /// is changed by `changes`, which are in the order of the sample.
    pub fn bits(&self, changes: impl Iterator<Item = f64>) -> f64 {
        // Every exponent of a prediction has its own counts.
        let mut counts = vec![[0u64; SYMBOLS]; 256];
        let mut raw = 0.0;
        for ([current, base], change) in self.bits.iter().zip(changes) {
            let (current, predicted) = if self.dtype == Dtype::F32 {
                (ordered(*current), f32_bits(*base, change))
            } else {
                let base = base.to_le_bytes();
                let predicted = bf16_bits(u16::from_le_bytes([base[2], base[3]]), change);
                (ordered(*current) >> 16, u32::from(predicted) << 16)
            };
            let exponent = usize::from((predicted << 1).to_be_bytes()[0]);
            let predicted = match self.dtype {
                Dtype::F32 => ordered(predicted),
                _ => ordered(predicted) >> 16,
            };
            let distance = current - predicted;
            let folded = (distance.unsigned_abs() << 1) - u64::from(distance < 0);
            let symbol = if folded < DIRECT.into() {
                folded
            } else {
                let len = folded.ilog2();
                raw += f64::from(len);
                u64::from(DIRECT + len)
            };
            counts[exponent][usize::try_from(symbol).unwrap_or(0)] += 1;
        }
        let coded: f64 = counts.iter().map(|counts| entropy_bits(counts)).sum();
        (coded + raw) * self.weight
    }
}

/// Maps the bits of a float32 to an integer that is ordered like the values.
fn ordered(bits: u32) -> i64 {
    let magnitude = i64::from(bits & 0x7FFF_FFFF);
    if bits >> 31 == 0 {
        magnitude
    } else {
        -magnitude - 1
    }
}
