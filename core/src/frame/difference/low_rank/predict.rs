//! Computes exact products, adds them to the base and rounds
//! (docs/formats/zxd1.md 13.2).

use core::array;
use core::ops::{Add, AddAssign, Mul, Range};

use super::{Factors, LowRank};
use crate::bytes;
use crate::dtype::Dtype;
use crate::float::{bf16_of_bits, power_of_two};
use crate::kernel::{self, Kernel};

/// The number of elements that are predicted together. Their sums stay in the
/// first-level cache while the terms are added.
const STRIP: usize = 512;

/// Predicts a range of elements. The caller has checked that all lengths match.
pub(super) fn predict(low_rank: &LowRank, base: &[u8], elements: Range<usize>, out: &mut [u8]) {
    // Every partial sum is an integer that the float type represents exactly, in
    // any order of addition, and floats multiply faster than integers.
    match &low_rank.factors {
        Factors::Narrow(factors) => {
            kernel::run(Prediction::<f32, _>::new(
                low_rank, factors, base, elements, out,
            ));
        }
        Factors::Wide(factors) => {
            kernel::run(Prediction::<f64, _>::new(
                low_rank, factors, base, elements, out,
            ));
        }
    }
}

/// Predicts elements from factors of type `F`, with sums of type `S`.
struct Prediction<'a, S, F> {
    rank: usize,
    columns: usize,
    scale: f64,
    dtype: Dtype,
    left: &'a [F],
    right: &'a [F],
    base: &'a [u8],
    elements: Range<usize>,
    out: &'a mut [u8],
    sums: [S; STRIP],
}

impl<'a, S: Copy + Default, F> Prediction<'a, S, F> {
    fn new(
        LowRank { head, dtype, .. }: &LowRank,
        factors: &'a [F],
        base: &'a [u8],
        elements: Range<usize>,
        out: &'a mut [u8],
    ) -> Self {
        let rank = head.rank.into();
        let (left, right) = factors.split_at(rank * bytes::index(head.rows.into()));
        Self {
            rank,
            columns: bytes::index(head.columns.into()),
            scale: power_of_two(-head.shift()),
            dtype: *dtype,
            left,
            right,
            base,
            elements,
            out,
            sums: [S::default(); STRIP],
        }
    }
}

impl<S, F> Kernel for Prediction<'_, S, F>
where
    S: Copy + Default + Add<Output = S> + AddAssign + Mul<Output = S> + From<F> + Into<f64>,
    F: Copy,
{
    type Output = ();

    #[inline(always)]
    fn run(mut self) {
        let Self {
            rank,
            columns,
            scale,
            dtype,
            left,
            right,
            base,
            elements,
            out,
            sums,
        } = &mut self;
        let width = base.len() / elements.len().max(1);
        let mut at = elements.start;
        while at < elements.end {
            let (row, column) = (at / *columns, at % *columns);
            let len = STRIP.min(*columns - column).min(elements.end - at);
            let sums = &mut sums[..len];
            sums.fill(S::default());
            let factors = &left[row * *rank..][..*rank];
            let terms = |number: usize| &right[number * *columns + column..][..len];
            // Adding four terms at once loads and stores each sum a quarter as
            // often.
            let (fours, rest) = factors.as_chunks::<4>();
            for (number, four) in fours.iter().enumerate() {
                let factors = four.map(S::from);
                let [a, b, c, d]: [&[F]; 4] = array::from_fn(|i| terms(4 * number + i));
                let terms = a.iter().zip(b).zip(c.iter().zip(d));
                for (sum, ((a, b), (c, d))) in sums.iter_mut().zip(terms) {
                    let first = factors[0] * S::from(*a) + factors[1] * S::from(*b);
                    let second = factors[2] * S::from(*c) + factors[3] * S::from(*d);
                    *sum += first + second;
                }
            }
            for (number, factor) in rest.iter().enumerate() {
                let factor = S::from(*factor);
                for (sum, term) in sums.iter_mut().zip(terms(4 * fours.len() + number)) {
                    *sum += factor * S::from(*term);
                }
            }
            let place = (at - elements.start) * width..(at - elements.start + len) * width;
            let (base, out) = (&base[place.clone()], &mut out[place]);
            if *dtype == Dtype::F32 {
                let base = base.as_chunks::<4>().0.iter();
                let pairs = base.zip(out.as_chunks_mut::<4>().0);
                for ((base, out), sum) in pairs.zip(sums) {
                    let bits = u32::from_le_bytes(*base);
                    *out = f32_bits(bits, (*sum).into() * *scale).to_le_bytes();
                }
            } else {
                let base = base.as_chunks::<2>().0.iter();
                let pairs = base.zip(out.as_chunks_mut::<2>().0);
                for ((base, out), sum) in pairs.zip(sums) {
                    let bits = u16::from_le_bytes(*base);
                    *out = bf16_bits(bits, (*sum).into() * *scale).to_le_bytes();
                }
            }
            at += len;
        }
    }
}

/// Returns the bits of a float32 plus `change`: one addition in double
/// precision, rounded to the nearest float32. Infinities and NaNs are returned
/// unchanged.
#[inline(always)]
pub(super) fn f32_bits(base: u32, change: f64) -> u32 {
    let value = f64::from(f32::from_bits(base));
    #[allow(clippy::cast_possible_truncation)] // rounds to nearest, ties to even
    let sum = (value + change) as f32;
    let finite = base & 0x7F80_0000 != 0x7F80_0000;
    if finite { sum.to_bits() } else { base }
}

/// Returns the bits of a bfloat16 plus `change`, rounded first to float32 and
/// then to the nearest bfloat16.
#[inline(always)]
pub(super) fn bf16_bits(base: u16, change: f64) -> u16 {
    bf16_of_bits(f32_bits(u32::from(base) << 16, change))
}
