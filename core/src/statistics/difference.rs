//! Compares the elements of two tensors: how many differ, and by how much.

use alloc::vec::Vec;

use super::{element, has_figures};
use crate::bytes::index;
use crate::dtype::Dtype;
use crate::engine::Engine;
use crate::float::{from_bf16, power_of_two};

/// The number of elements that one job compares.
const JOB_ELEMENTS: usize = 1 << 18;
/// The number of sums that are formed side by side. A single sum would wait for
/// the addition of the element before.
const LANES: usize = 8;
/// The number of elements that are checked together for NaN and infinity.
const RUN: usize = 32 * LANES;

/// How much the elements of a tensor differ from those of another tensor with the
/// same number of elements.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Difference {
    /// The number of elements of each tensor.
    pub elements: u64,
    /// The number of elements whose bits differ. If the dtypes differ, it is the
    /// number of elements whose values differ; two NaN are equal then.
    pub changed: u64,
    /// The number of elements that are finite in the first tensor, and NaN or
    /// infinite in the second one.
    pub lost_finite: u64,
    /// The number of elements that are NaN or infinite in the first tensor, and
    /// finite in the second one.
    pub gained_finite: u64,
    /// The sizes of the change; `None` for truth values, and for the dtypes `F4`,
    /// `F6_E2M3`, `F6_E3M2` and `C64`.
    pub size: Option<DifferenceSize>,
}

/// The size of a change. It only counts elements that are finite in both tensors.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct DifferenceSize {
    /// The largest distance between two elements at the same place.
    pub max_abs: f64,
    /// The square root of the sum of the squared distances.
    pub norm: f64,
    /// The square root of the sum of the squares of the elements of the first
    /// tensor.
    pub first_norm: f64,
}

impl DifferenceSize {
    /// Returns the norm of the change divided by the norm of the first tensor;
    /// 0 if nothing changed, and `None` if the first tensor has no finite element
    /// other than zero.
    #[must_use]
    pub fn relative(&self) -> Option<f64> {
        match self.norm {
            0.0 => Some(0.0),
            norm => Some(norm / self.first_norm).filter(|ratio| ratio.is_finite()),
        }
    }
}

impl Difference {
    /// Compares the elements of two tensors, each given by its dtype and its bytes.
    /// Returns `None` if they have different numbers of elements, or if their dtypes
    /// differ and one of them has no figures ([`has_figures`]).
    #[must_use]
    pub fn of<E: Engine>(
        engine: &E,
        first: (Dtype, &[u8]),
        second: (Dtype, &[u8]),
    ) -> Option<Self> {
        let [a, b] = [first, second].map(|(dtype, _)| dtype);
        let elements = element_count(first)?;
        if element_count(second)? != elements {
            return None;
        }
        let without_size = |changed| Self {
            elements,
            changed,
            lost_finite: 0,
            gained_finite: 0,
            size: None,
        };
        if a == b && (!has_figures(a) || a == Dtype::Bool) {
            return Some(without_size(changed_codes(a, first.1, second.1)));
        }
        if !has_figures(a) || !has_figures(b) {
            return None;
        }
        let sums = |scale| sums(engine, first, second, scale);
        let mut all = sums(1.0);
        // Squares of values beyond these bounds leave the range of the exponent.
        let exponent = match all.magnitude {
            large if large >= power_of_two(400) => -600,
            small if small > 0.0 && small < power_of_two(-400) => 600,
            _ => 0,
        };
        if exponent != 0 {
            all = sums(power_of_two(exponent));
        }
        let back = power_of_two(-exponent);
        Some(Self {
            changed: all.changed,
            lost_finite: all.lost_finite,
            gained_finite: all.gained_finite,
            size: (a != Dtype::Bool && b != Dtype::Bool).then(|| DifferenceSize {
                max_abs: all.max_abs * back,
                norm: libm::sqrt(all.squares) * back,
                first_norm: libm::sqrt(all.first_squares) * back,
            }),
            ..without_size(0)
        })
    }
}

fn element_count((dtype, bytes): (Dtype, &[u8])) -> Option<u64> {
    let bits = (bytes.len() as u64).checked_mul(8)?;
    (bits % dtype.bits() == 0).then(|| bits / dtype.bits())
}

/// Returns the number of elements whose bits differ.
fn changed_codes(dtype: Dtype, first: &[u8], second: &[u8]) -> u64 {
    match dtype.bits() {
        // Elements shorter than a byte fill whole bytes together: two of four bits
        // fill one, four of six bits fill three.
        bits @ (4 | 6) => {
            let group = if bits == 4 { 1 } else { 3 };
            let pairs = first.chunks(group).zip(second.chunks(group));
            let differing = pairs.filter(|(a, b)| a != b);
            differing.map(|(a, b)| in_group(bits, a, b)).sum()
        }
        bits => {
            let len = index(bits / 8);
            let pairs = first.chunks(len).zip(second.chunks(len));
            pairs.filter(|(a, b)| a != b).count() as u64
        }
    }
}

/// Returns the number of differing elements of `bits` bits in two groups of up to
/// three bytes. The first element has the lowest bits.
fn in_group(bits: u64, first: &[u8], second: &[u8]) -> u64 {
    let word = |bytes: &[u8]| {
        let shifted = bytes.iter().zip([0, 8, 16]);
        shifted.fold(0u32, |word, (byte, shift)| word | u32::from(*byte) << shift)
    };
    let mut difference = word(first) ^ word(second);
    let mut count = 0;
    while difference != 0 {
        count += u64::from(difference & ((1 << bits) - 1) != 0);
        difference >>= bits;
    }
    count
}

/// The counts and sums of some elements.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    changed: u64,
    lost_finite: u64,
    gained_finite: u64,
    squares: f64,
    first_squares: f64,
    max_abs: f64,
    /// The largest magnitude of a finite element, without the scale.
    magnitude: f64,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.changed += other.changed;
        self.lost_finite += other.lost_finite;
        self.gained_finite += other.gained_finite;
        self.squares += other.squares;
        self.first_squares += other.first_squares;
        self.max_abs = larger(self.max_abs, other.max_abs);
        self.magnitude = larger(self.magnitude, other.magnitude);
    }
}

/// Returns the larger number, and the first one if the other is NaN.
fn larger(a: f64, b: f64) -> f64 {
    if b > a { b } else { a }
}

/// Compares tensors whose dtypes have figures; all values are multiplied by `scale`.
fn sums<E: Engine>(engine: &E, first: (Dtype, &[u8]), second: (Dtype, &[u8]), scale: f64) -> Sums {
    let piece_bytes = |dtype: Dtype| JOB_ELEMENTS * dtype.len_bytes().unwrap_or(1);
    let pieces = first.1.chunks(piece_bytes(first.0));
    let pieces: Vec<_> = pieces.zip(second.1.chunks(piece_bytes(second.0))).collect();
    let parts = engine.map(pieces, |(a, b)| match first.0 == second.0 {
        true => same_dtype(first.0, a, b, scale),
        false => mixed((first.0, a), (second.0, b), scale),
    });
    let mut all = Sums::default();
    parts.iter().for_each(|part| all.add(part));
    all
}

fn same_dtype(dtype: Dtype, a: &[u8], b: &[u8], scale: f64) -> Sums {
    match dtype {
        Dtype::Bf16 => runs::<2>(a, b, scale, |e| from_bf16(u16::from_le_bytes(e)).into()),
        Dtype::F32 => runs::<4>(a, b, scale, |e| f32::from_le_bytes(e).into()),
        Dtype::F64 => runs::<8>(a, b, scale, f64::from_le_bytes),
        Dtype::I16 => runs::<2>(a, b, scale, |e| i16::from_le_bytes(e).into()),
        Dtype::I32 => runs::<4>(a, b, scale, |e| i32::from_le_bytes(e).into()),
        _ => match dtype.bits() {
            8 => {
                let table: [f64; 256] = core::array::from_fn(|code| {
                    element::value(&[u8::try_from(code).unwrap_or_default()], dtype)
                });
                runs::<1>(a, b, scale, |[code]| table[usize::from(code)])
            }
            64 if dtype == Dtype::I64 => integers(a, b, |e| i64::from_le_bytes(e).into()),
            64 if dtype == Dtype::U64 => integers(a, b, |e| u64::from_le_bytes(e).into()),
            16 => runs::<2>(a, b, scale, |e| element::value(&e, dtype)),
            32 => runs::<4>(a, b, scale, |e| element::value(&e, dtype)),
            _ => runs::<8>(a, b, scale, |e| element::value(&e, dtype)),
        },
    }
}

/// Compares elements of one dtype, run by run.
fn runs<const BYTES: usize>(
    a: &[u8],
    b: &[u8],
    scale: f64,
    value: impl Fn([u8; BYTES]) -> f64,
) -> Sums {
    pairs(a, b, |sums, a, b| sums.add_pair(value(a), value(b), scale))
}

/// Compares integers that f64 may not represent exactly. Their distances are computed as
/// integers.
fn integers(a: &[u8], b: &[u8], value: impl Fn([u8; 8]) -> i128) -> Sums {
    pairs(a, b, |sums, a, b| {
        let (a, b) = (value(a), value(b));
        sums.add_finite(a as f64, b as f64, b.abs_diff(a) as f64);
    })
}

/// Compares elements of one dtype, run by run, and counts those that differ. `add` adds
/// their distance to the sums.
fn pairs<const BYTES: usize>(
    a: &[u8],
    b: &[u8],
    add: impl Fn(&mut Sums, [u8; BYTES], [u8; BYTES]),
) -> Sums {
    let (a, b) = (a.as_chunks::<BYTES>().0, b.as_chunks::<BYTES>().0);
    let mut all = Sums::default();
    for (a, b) in a.chunks(RUN).zip(b.chunks(RUN)) {
        let mut lanes = [Sums::default(); LANES];
        for (a, b) in a.chunks(LANES).zip(b.chunks(LANES)) {
            for ((a, b), lane) in a.iter().zip(b).zip(&mut lanes) {
                lane.changed += u64::from(a != b);
                add(lane, *a, *b);
            }
        }
        lanes.iter().for_each(|lane| all.add(lane));
    }
    all
}

/// Compares elements of different dtypes by their values.
fn mixed(first: (Dtype, &[u8]), second: (Dtype, &[u8]), scale: f64) -> Sums {
    let values = |(dtype, bytes): (Dtype, &'_ [u8])| {
        let elements = bytes.chunks_exact(dtype.len_bytes().unwrap_or(1));
        elements
            .map(|e| element::value(e, dtype))
            .collect::<Vec<f64>>()
    };
    let mut all = Sums::default();
    for (a, b) in values(first).into_iter().zip(values(second)) {
        all.changed += u64::from(a != b && !(a.is_nan() && b.is_nan()));
        all.add_pair(a, b, scale);
    }
    all
}

impl Sums {
    /// Adds everything about two values but whether they differ.
    #[inline(always)]
    fn add_pair(&mut self, a: f64, b: f64, scale: f64) {
        let are_finite = (a.is_finite(), b.is_finite());
        self.lost_finite += u64::from(are_finite == (true, false));
        self.gained_finite += u64::from(are_finite == (false, true));
        let (a, b) = match are_finite {
            (true, true) => (a, b),
            _ => (0.0, 0.0),
        };
        self.magnitude = larger(self.magnitude, larger(a.abs(), b.abs()));
        let (a, b) = (a * scale, b * scale);
        self.add_distance(a, (b - a).abs());
    }

    /// Adds two finite values and their distance.
    #[inline(always)]
    fn add_finite(&mut self, a: f64, b: f64, distance: f64) {
        self.magnitude = larger(self.magnitude, larger(a.abs(), b.abs()));
        self.add_distance(a, distance);
    }

    #[inline(always)]
    fn add_distance(&mut self, a: f64, distance: f64) {
        self.squares += distance * distance;
        self.first_squares += a * a;
        self.max_abs = larger(self.max_abs, distance);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pure::Pure;

    #[test]
    fn long_integers_are_subtracted_exactly() {
        for (dtype, first, second, distance) in [
            (Dtype::I64, 1_u64 << 60, (1 << 60) + 63, 63.0),
            (Dtype::U64, 1 << 63, (1 << 63) + 1, 1.0),
            (Dtype::I64, u64::MAX, 1 << 63, (i64::MAX as f64)),
        ] {
            let [a, b] = [first, second].map(u64::to_le_bytes);
            let found = Difference::of(&Pure, (dtype, &a), (dtype, &b)).unwrap();
            let size = found.size.unwrap();
            assert_eq!(
                (found.changed, size.max_abs, size.norm),
                (1, distance, distance)
            );
        }
    }

    fn f64s(values: &[f64]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    }

    fn of(dtype: Dtype, first: &[u8], second: &[u8]) -> Difference {
        Difference::of(&Pure, (dtype, first), (dtype, second)).unwrap()
    }

    #[test]
    fn elements_shorter_than_a_byte_are_counted_one_by_one() {
        let found = of(Dtype::F4, &[0x10, 0x32, 0x54], &[0x11, 0x32, 0x65]);
        assert_eq!((found.elements, found.changed, found.size), (6, 3, None));
        // The elements are 1, 2, 3, 4 and 1, 2, 3, 5.
        let word = |last: u32| (1 | 2 << 6 | 3 << 12 | last << 18).to_le_bytes()[..3].to_vec();
        let found = of(Dtype::F6E2M3, &word(4), &word(5));
        assert_eq!((found.elements, found.changed), (4, 1));
    }

    #[test]
    fn very_large_and_very_small_numbers_keep_their_norms() {
        for size in [1e300, 1.0, 1e-300] {
            let first = f64s(&[3.0 * size, 0.0, f64::NAN, size]);
            let second = f64s(&[3.0 * size, 4.0 * size, 1.0, f64::INFINITY]);
            let found = of(Dtype::F64, &first, &second);
            assert_eq!(
                (found.changed, found.lost_finite, found.gained_finite),
                (3, 1, 1)
            );
            let figures = found.size.unwrap();
            let near = |value: f64, expected: f64| (value / expected - 1.0).abs() < 1e-12;
            assert!(near(figures.norm, 4.0 * size), "{figures:?}");
            assert!(near(figures.first_norm, 3.0 * size), "{figures:?}");
            assert!(near(figures.max_abs, 4.0 * size), "{figures:?}");
            assert!(near(figures.relative().unwrap(), 4.0 / 3.0));
        }
    }

    #[test]
    fn dtypes_are_compared_by_value_if_they_differ() {
        let bf16: Vec<u8> = [0x3F80u16, 0x7FC0, 0x4000]
            .iter()
            .flat_map(|bits| bits.to_le_bytes())
            .collect();
        let f64s = f64s(&[1.0, f64::NAN, 2.5]);
        let found = Difference::of(&Pure, (Dtype::Bf16, &bf16), (Dtype::F64, &f64s)).unwrap();
        assert_eq!((found.elements, found.changed), (3, 1));
        assert_eq!(found.size.unwrap().max_abs, 0.5);
        let shorter = (Dtype::F64, &f64s[8..]);
        assert_eq!(Difference::of(&Pure, (Dtype::Bf16, &bf16), shorter), None);
        assert_eq!(
            Difference::of(&Pure, (Dtype::Bf16, &bf16[..4]), (Dtype::F4, &[0])),
            None
        );
    }
}
