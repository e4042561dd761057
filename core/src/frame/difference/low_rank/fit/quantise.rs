//! Converts factors to integers, with the scale that makes coding the
//! differences from the prediction cheapest.

use alloc::vec;
use alloc::vec::Vec;

use super::linear_algebra::{Matrix, Random, add_scaled, orthonormalise_rows};
use super::{Elements, SampledBlock, spread};
use crate::dtype::Dtype;
use crate::engine::Engine;
use crate::entropy::histogram::entropy_bits;
use crate::float::power_of_two;
use crate::frame::difference::low_rank::LowRankHead;
use crate::frame::difference::low_rank::predict::{bf16_bits, f32_bits};

/// The fraction of the available range that the product of the largest factors
/// may fill. The rest is headroom, because the right factors change again once
/// the left ones are integers.
const HEADROOM: f64 = 63.0 / 64.0;
/// Number of random rotations that are tried.
const TURNS: usize = 3;
/// A prediction is used only if its cost is below this fraction of the cost
/// without one.
const WORTH: f64 = 0.98;
/// The search ends after this many consecutive widths without an improvement.
const PATIENCE: usize = 2;

/// The conversion of factors to integers.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    pub bits: u8,
    /// The multipliers of left and right factors. Their product is a power of
    /// two.
    pub scales: [f64; 2],
    /// The binary logarithm of that product, converted to the unscaled
    /// differences of the tensor.
    pub shift: i32,
}

impl Scale {
    /// Returns the largest scale that fits the largest factors into `bits`
    /// bits.
    fn new(bits: u8, largest: [f64; 2], elements: &Elements) -> Option<Self> {
        let limit = power_of_two(i32::from(bits) - 1) - 1.0;
        let product = largest[0] * largest[1];
        let free = limit * limit * HEADROOM / product;
        let exponent = exponent(free)?;
        let left = libm::sqrt(power_of_two(exponent) * largest[1] / largest[0]);
        Some(Self {
            bits,
            scales: [left, power_of_two(exponent) / left],
            shift: exponent + self::exponent(elements.scale)?,
        })
    }

    /// Returns the integer of a factor; `side` is 0 for left factors and 1 for
    /// right ones.
    pub fn integer(&self, side: usize, factor: f64) -> i32 {
        let limit = power_of_two(i32::from(self.bits) - 1);
        let scaled = (factor * self.scales[side]).clamp(-limit, limit - 1.0);
        let half = if scaled < 0.0 { -0.5 } else { 0.5 };
        #[allow(clippy::cast_possible_truncation)] // within the limits; the cast truncates
        let integer = (scaled + half) as i32;
        let limit = 1 << (self.bits - 1);
        integer.clamp(-limit, limit - 1)
    }

    /// Returns the factors as a decoder will restore them.
    pub fn rounded(&self, side: usize, factors: &Matrix) -> Matrix {
        let round = |&factor| f64::from(self.integer(side, factor)) / self.scales[side];
        Matrix {
            columns: factors.columns,
            values: factors.values.iter().map(round).collect(),
        }
    }
}

/// Returns the exponent of a positive, normal double.
fn exponent(value: f64) -> Option<i32> {
    let field = i32::try_from(value.to_bits() >> 52).ok()?;
    (1..2047).contains(&field).then_some(field - 1023)
}

/// Returns the scale with the smallest expected cost of factors and differences
/// together. Returns `None` if no scale costs clearly less than coding the
/// differences alone.
pub fn choose(
    elements: &Elements,
    block: &SampledBlock,
    left: &Matrix,
    factors: &[Matrix; 2],
) -> Option<Scale> {
    let sample = Sample::new(elements, block);
    let rank = left.columns;
    let largest = [left, &factors[1]].map(largest);
    let count = rank as f64 * (elements.rows as f64 + elements.columns as f64);
    let mut best = (sample.bits(core::iter::repeat(0.0)) * WORTH, None);
    let mut worse = 0;
    for bits in LowRankHead::BITS {
        let exact = (rank as u64) << (2 * (bits - 1)) <= 1 << 53;
        let Some(scale) = Scale::new(bits, largest, elements).filter(|_| exact) else {
            continue;
        };
        let right = scale.rounded(1, &factors[1]).transposed();
        let left = scale.rounded(0, &factors[0]);
        let changes = sample.rows.iter().flat_map(|row| {
            let mut sums = Matrix::zeros(1, right.columns).values;
            for (number, factor) in left.row(*row).iter().enumerate() {
                add_scaled(&mut sums, *factor, right.row(number));
            }
            sums.into_iter().map(|sum| sum / elements.scale)
        });
        let cost = sample.bits(changes) + count * f64::from(bits);
        if cost < best.0 {
            best = (cost, Some(scale));
            worse = 0;
        } else if best.1.is_some() {
            worse += 1;
            if worse == PATIENCE {
                break;
            }
        }
    }
    best.1
}

/// Rotates the factors, which does not change their product, so that the
/// largest ones become smaller.
pub(crate) fn spread_out<E: Engine>(engine: &E, factors: [Matrix; 2]) -> [Matrix; 2] {
    let rank = factors[0].columns;
    let product = |factors: &[Matrix; 2]| largest(&factors[0]) * largest(&factors[1]);
    let mut random = Random::new();
    let turned = (0..TURNS).map(|_| {
        let mut turn = random.matrix(rank, rank);
        orthonormalise_rows(&mut turn);
        factors.each_ref().map(|factor| factor.times(engine, &turn))
    });
    let turned: Vec<_> = turned.collect();
    let all = turned.into_iter().chain([factors]);
    let first = |a: [Matrix; 2], b| if product(&b) < product(&a) { b } else { a };
    all.reduce(first).expect("at least one")
}

fn largest(matrix: &Matrix) -> f64 {
    matrix
        .values
        .iter()
        .fold(0.0, |most: f64, value| most.max(value.abs()))
}

/// Number of rows that are predicted to estimate the cost of a scale.
const ROWS: usize = 48;
/// Differences whose folded value is below this have a symbol of their own;
/// larger ones share one symbol per bit length.
const DIRECT: u32 = 16;
const SYMBOLS: usize = 64;

/// The elements of some rows, as bits of float32.
pub struct Sample {
    /// The indices of the sampled rows in the block.
    pub rows: Vec<usize>,
    bits: Vec<[u32; 2]>,
    dtype: Dtype,
    /// Number of elements of the matrix per element of the sample.
    weight: f64,
}

impl Sample {
    pub fn new(elements: &Elements, block: &SampledBlock) -> Self {
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
