//! Sums over floats of up to 32 bits, the usual elements of models. They are
//! formed in runs of 256 elements, in 32 bits where that is exact enough.

use core::marker::PhantomData;

use super::Figures;
use super::moments::{Feed, Moments, Sums, count, empty};
use crate::dtype::Dtype;
use crate::kernel::{self, Kernel};

/// The number of sums formed side by side. Element `i` is added to sum `i`
/// modulo 16.
pub(super) const LANES: usize = 16;
/// The number of elements in a run, whose sums are formed in 32 bits.
pub(super) const RUN: usize = 256;
/// The bounds for the largest magnitude in a run that is summed in 32 bits.
/// Between them, squares neither overflow nor vanish compared with the largest
/// square.
const MIN_MAGNITUDE: f32 = f32::from_bits((127 - 40) << 23);
const MAX_MAGNITUDE: f32 = f32::from_bits((127 + 60) << 23);

/// A dtype whose elements are exact in 32 bits.
trait Float {
    /// The length of an element in bytes.
    const BYTES: usize;

    /// Returns, lane by lane, the sums of a run of [`RUN`] finite elements and
    /// the sums of their squares.
    fn sums(run: &[u8]) -> [[f32; LANES]; 2];

    /// Returns the extremes of a run and the number of its zeros, or `None` if
    /// some element is not finite.
    fn extremes(run: &[u8]) -> Option<Extremes>;

    /// Decodes the little-endian bytes of an element.
    fn value(element: &[u8]) -> f32;
}

/// The extremes of a run of finite elements, and the number of zeros.
struct Extremes {
    min: f32,
    max: f32,
    zeros: u64,
}

/// Computes the figures of elements of BF16, F16 or F32.
pub(super) fn of<E>(feed: &Feed<'_, E>, dtype: Dtype) -> Result<Moments, E> {
    let add = match dtype {
        Dtype::Bf16 => add::<Bf16>,
        Dtype::F16 => add::<F16>,
        _ => add::<F32>,
    };
    let mut figures = empty(0);
    let mut lanes = [Sums::default(); LANES];
    feed(&mut |piece| add(piece, &mut figures, &mut lanes))?;
    Ok(Moments::new(figures, added(&lanes)))
}

/// Adds the lanes up, starting with the first one.
pub(super) fn added(lanes: &[Sums; LANES]) -> Sums {
    let mut all = Sums::default();
    for lane in lanes {
        all.sum += lane.sum;
        all.squares += lane.squares;
    }
    all
}

/// Adds the elements of a piece that starts at the beginning of a run.
fn add<F: Float>(bytes: &[u8], figures: &mut Figures, lanes: &mut [Sums; LANES]) {
    figures.count += (bytes.len() / F::BYTES) as u64;
    let mut runs = bytes.chunks_exact(RUN * F::BYTES);
    for run in runs.by_ref() {
        let Some(found) = extremes::<F>(run).filter(is_usual) else {
            add_slowly::<F>(run, figures, lanes);
            continue;
        };
        let (min, max) = (f64::from(found.min), f64::from(found.max));
        figures.zeros += found.zeros;
        figures.min = if min < figures.min { min } else { figures.min };
        figures.max = if max > figures.max { max } else { figures.max };
        let [sums, squares] = sums::<F>(run);
        for (lane, (sum, square)) in lanes.iter_mut().zip(sums.into_iter().zip(squares)) {
            lane.sum += f64::from(sum);
            lane.squares += f64::from(square);
        }
    }
    add_slowly::<F>(runs.remainder(), figures, lanes);
}

struct RunSums<'a, F>(&'a [u8], PhantomData<F>);

impl<F: Float> Kernel for RunSums<'_, F> {
    type Output = [[f32; LANES]; 2];

    #[inline(always)]
    fn run(self) -> Self::Output {
        F::sums(self.0)
    }
}

struct RunExtremes<'a, F>(&'a [u8], PhantomData<F>);

impl<F: Float> Kernel for RunExtremes<'_, F> {
    type Output = Option<Extremes>;

    #[inline(always)]
    fn run(self) -> Self::Output {
        F::extremes(self.0)
    }
}

// Compilers vectorise these loops if each is a function of its own.

#[inline(never)]
fn sums<F: Float>(run: &[u8]) -> [[f32; LANES]; 2] {
    kernel::run(RunSums::<F>(run, PhantomData))
}

#[inline(never)]
fn extremes<F: Float>(run: &[u8]) -> Option<Extremes> {
    kernel::run(RunExtremes::<F>(run, PhantomData))
}

/// Returns whether the sums of a run are formed in 32 bits.
fn is_usual(run: &Extremes) -> bool {
    let magnitude = if -run.min > run.max {
        -run.min
    } else {
        run.max
    };
    magnitude == 0.0 || (MIN_MAGNITUDE..=MAX_MAGNITUDE).contains(&magnitude)
}

/// Adds elements one at a time, in 64 bits. It serves runs with elements that
/// are not finite or of unusual magnitude, and the elements after the last
/// whole run.
#[cold]
fn add_slowly<F: Float>(run: &[u8], figures: &mut Figures, lanes: &mut [Sums; LANES]) {
    for (number, element) in run.chunks_exact(F::BYTES).enumerate() {
        let value = f64::from(F::value(element));
        if count(figures, value, 1) {
            let lane = &mut lanes[number % LANES];
            lane.sum += value;
            lane.squares += value * value;
        }
    }
}

/// Implements [`Float`] for elements of this length, whose bits are compared as
/// signed integers: without the sign bit they are in the order of their
/// magnitudes.
macro_rules! float {
    ($name:ident, $bytes:literal, $bits:ty, $first_infinite:literal, $widen:expr) => {
        struct $name;

        impl Float for $name {
            const BYTES: usize = $bytes;

            #[inline(always)]
            fn sums(run: &[u8]) -> [[f32; LANES]; 2] {
                let mut sums = [0.0f32; LANES];
                let mut squares = [0.0f32; LANES];
                for elements in run.as_chunks::<{ $bytes * LANES }>().0 {
                    let elements = elements.as_chunks::<$bytes>().0;
                    for lane in 0..LANES {
                        let value: f32 = $widen(<$bits>::from_le_bytes(elements[lane]));
                        sums[lane] += value;
                        squares[lane] += value * value;
                    }
                }
                [sums, squares]
            }

            #[inline(always)]
            fn extremes(run: &[u8]) -> Option<Extremes> {
                const SIGN: $bits = <$bits>::MIN;
                let bits = || {
                    run.as_chunks::<$bytes>()
                        .0
                        .iter()
                        .map(|e| <$bits>::from_le_bytes(*e))
                };
                // Negative elements are negative integers in the first fold,
                // and positive elements in the second, so neither affects the
                // maximum over the others.
                let greatest = bits().fold(SIGN, |most, bits| most.max(bits));
                let least = bits().fold(SIGN, |most, bits| most.max(bits ^ SIGN));
                let is_zero = |bits: $bits| <$bits>::from(bits << 1 == 0);
                let zeros = bits().fold(0, |zeros: $bits, bits| zeros + is_zero(bits));
                if greatest >= $first_infinite || least >= $first_infinite {
                    return None;
                }
                let value = |bits: $bits| Self::value(&bits.to_le_bytes());
                let (min, max) = if greatest >= 0 && least >= 0 {
                    (value(least ^ SIGN), value(greatest))
                } else {
                    // All elements have the same sign.
                    let values = || bits().map(value);
                    (
                        values().fold(f32::INFINITY, f32::min),
                        values().fold(f32::NEG_INFINITY, f32::max),
                    )
                };
                // The count fits the integer type, since a run has fewer than
                // 2^15 elements.
                let zeros = zeros.unsigned_abs().into();
                Some(Extremes { min, max, zeros })
            }

            #[inline(always)]
            fn value(element: &[u8]) -> f32 {
                let bits = <$bits>::from_le_bytes(element.try_into().unwrap_or_default());
                match bits & <$bits>::MAX < $first_infinite {
                    true => $widen(bits),
                    false if bits & <$bits>::MAX == $first_infinite => f32::INFINITY,
                    false => f32::NAN,
                }
            }
        }
    };
}

float!(F32, 4, i32, 0x7F80_0000, |bits: i32| f32::from_bits(
    bits.cast_unsigned()
));
float!(Bf16, 2, i16, 0x7F80, |bits: i16| f32::from_bits(
    u32::from(bits.cast_unsigned()) << 16
));
float!(F16, 2, i16, 0x7C00, widen_f16);

/// Returns the value of a finite element. It takes no branch and creates no
/// subnormal number, which processors handle slowly.
#[inline(always)]
fn widen_f16(bits: i16) -> f32 {
    /// The difference between the exponent biases of the two formats.
    const BIAS: u32 = 112 << 23;
    /// The bits of the smallest normal number of F16, as an `f32`.
    const LEAST: u32 = BIAS + (1 << 23);
    let bits = u32::from(bits.cast_unsigned());
    let magnitude = (bits & 0x7FFF) << 13;
    let normal = magnitude + BIAS;
    let subnormal = (f32::from_bits(magnitude + LEAST) - f32::from_bits(LEAST)).to_bits();
    let magnitude = if magnitude < 1 << 23 {
        subnormal
    } else {
        normal
    };
    f32::from_bits(magnitude | (bits & 0x8000) << 16)
}
