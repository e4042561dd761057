use super::predict::{bf16_bits, f32_bits};
use super::*;
use crate::Rule;
use crate::float::power_of_two;
use alloc::vec;
use proptest::prelude::*;

/// An exact number: a sign, an integer and a power of two. Its arithmetic is
/// independent of the code under test.
#[derive(Debug, Clone, Copy)]
struct Exact {
    negative: bool,
    magnitude: u128,
    exponent: i32,
}

impl Exact {
    fn integer(value: i64, exponent: i32) -> Self {
        Self {
            negative: value < 0,
            magnitude: value.unsigned_abs().into(),
            exponent,
        }
    }

    /// Returns a finite float32 as an exact number.
    fn float(bits: u32) -> Self {
        let (field, mantissa) = ((bits >> 23 & 255) as i32, bits & 0x7F_FFFF);
        let hidden = u32::from(field > 0) << 23;
        Self {
            negative: bits >> 31 == 1,
            magnitude: (mantissa | hidden).into(),
            exponent: field.max(1) - 150,
        }
    }

    fn add(self, other: Self) -> Self {
        let (mut high, mut low) = (self, other);
        if low.magnitude == 0 {
            // −0 + 0 = 0 when rounding to nearest.
            let negative = high.negative && (high.magnitude > 0 || low.negative);
            return Self { negative, ..high };
        }
        if high.magnitude == 0 {
            return low;
        }
        let top = |x: Self| x.exponent + 128 - x.magnitude.leading_zeros() as i32;
        if top(high) < top(low) {
            (high, low) = (low, high);
        }
        // Moves the top bit of the larger number to bit 119. Bits of the
        // smaller number that are shifted out are far below the last place, so
        // one sticky bit represents them.
        let shift = high.magnitude.leading_zeros() as i32 - 8;
        high.magnitude = if shift > 0 {
            high.magnitude << shift
        } else {
            high.magnitude
        };
        high.exponent -= shift.max(0);
        let gap = low.exponent - high.exponent;
        low.magnitude = if gap >= 0 {
            low.magnitude << gap
        } else if gap > -120 {
            let (kept, lost) = (low.magnitude >> -gap, low.magnitude & ((1 << -gap) - 1));
            kept | u128::from(lost > 0)
        } else {
            1
        };
        if high.negative == low.negative {
            Self {
                magnitude: high.magnitude + low.magnitude,
                ..high
            }
        } else if high.magnitude == low.magnitude {
            Self {
                negative: false,
                magnitude: 0,
                exponent: 0,
            }
        } else if high.magnitude > low.magnitude {
            Self {
                magnitude: high.magnitude - low.magnitude,
                ..high
            }
        } else {
            Self {
                negative: low.negative,
                magnitude: low.magnitude - high.magnitude,
                ..high
            }
        }
    }

    /// Rounds to `bits` significant bits, ties to even. Bits below 2^`least`
    /// are dropped in any case.
    fn round(mut self, bits: i32, least: i32) -> Self {
        let len = 128 - self.magnitude.leading_zeros() as i32;
        let drop = (len - bits).max(least - self.exponent);
        if self.magnitude == 0 || drop <= 0 {
            return self;
        }
        self.exponent += drop;
        if drop > 126 {
            self.magnitude = 0;
            return self;
        }
        let (kept, lost) = (self.magnitude >> drop, self.magnitude & ((1 << drop) - 1));
        let half = 1 << (drop - 1);
        let up = lost > half || (lost == half && kept & 1 == 1);
        self.magnitude = kept + u128::from(up);
        self
    }

    /// Returns the bits of the float32 that equals this number, or of infinity
    /// if the number is too large.
    fn bits(self) -> u32 {
        let sign = u32::from(self.negative) << 31;
        if self.magnitude == 0 {
            return sign;
        }
        let (mut magnitude, mut exponent) = (self.magnitude, self.exponent);
        while magnitude & 1 == 0 {
            (magnitude, exponent) = (magnitude >> 1, exponent + 1);
        }
        let len = 128 - magnitude.leading_zeros() as i32;
        let top = exponent + len - 1;
        if top > 127 {
            return sign | 0x7F80_0000;
        }
        let unit = (top - 23).max(-149);
        let fraction = u32::try_from(magnitude << (exponent - unit)).unwrap();
        let field = if top < -126 { 0 } else { (top + 126) as u32 };
        sign | ((field << 23) + fraction)
    }
}

/// Computes section 13.2 step by step.
fn expected(base: u32, sum: i64, exponent: i32, bf16: bool) -> u32 {
    if base & 0x7F80_0000 == 0x7F80_0000 {
        return base;
    }
    let exact = Exact::float(base).add(Exact::integer(sum, exponent));
    let float = exact.round(53, -1074).round(24, -149).bits();
    if !bf16 || float & 0x7F80_0000 == 0x7F80_0000 {
        return float;
    }
    Exact::float(float).round(8, -133).bits()
}

fn check(base: u32, sum: i64, exponent: i32) {
    let change = sum as f64 * power_of_two(exponent);
    let found = f32_bits(base, change);
    let right = expected(base, sum, exponent, false);
    assert_eq!(found, right, "{base:08x} + {sum} * 2^{exponent}");
    let base = base & 0xFFFF_0000;
    let found = u32::from(bf16_bits((base >> 16) as u16, change)) << 16;
    let right = expected(base, sum, exponent, true);
    assert_eq!(found, right, "bfloat16 {base:08x} + {sum} * 2^{exponent}");
}

#[test]
fn rounding_edges() {
    let bases = [
        0,
        1,
        0x0000_FFFF,
        0x0001_0000,
        0x007F_FFFF,
        0x0080_0000,
        0x3F80_0000,
        0x3F80_0001,
        0x3F81_0000,
        0x3FFF_FFFF,
        0x3FFF_0000,
        0x7F7F_FFFF,
        0x7F7F_0000,
        0x7F80_0000,
        0x7F80_0001,
        0x7FC0_0000,
        0x7FFF_FFFF,
    ];
    let sums = [
        0,
        1,
        2,
        3,
        255,
        256,
        257,
        (1 << 53) - 1,
        1 << 53,
        1 << 52 | 1,
    ];
    let shifts = (-160..=130).chain([-1022, -1021, -1000, 969, 970]);
    for shift in shifts {
        for base in bases {
            for sum in sums {
                check(base, sum, shift);
                check(base | 1 << 31, sum, shift);
                check(base, -sum, shift);
            }
        }
    }
}

#[test]
fn the_documented_edges() {
    let one = 0x3F80_0000;
    // Half of the last place is a tie in float32, which rounds to even.
    assert_eq!(f32_bits(one, power_of_two(-24)), one);
    assert_eq!(f32_bits(one + 1, power_of_two(-24)), one + 2);
    // A bfloat16 is rounded twice: this value is above the tie, but rounding to
    // float32 makes it a tie.
    let above = power_of_two(-8) + power_of_two(-30);
    assert_eq!(bf16_bits(0x3F80, above), 0x3F80);
    assert_eq!(
        bf16_bits(0x3F80, power_of_two(-8) + power_of_two(-23)),
        0x3F81
    );
    // The largest value plus half of its last place rounds to infinity.
    assert_eq!(f32_bits(0x7F7F_FFFF, power_of_two(103)), 0x7F80_0000);
    assert_eq!(bf16_bits(0x7F7F, power_of_two(119)), 0x7F80);
    assert_eq!(bf16_bits(0xFF7F, -power_of_two(119)), 0xFF80);
    // Half of the smallest subnormal is a tie with zero.
    assert_eq!(f32_bits(0, power_of_two(-150)), 0);
    assert_eq!(f32_bits(1, power_of_two(-150)), 2);
    assert_eq!(f32_bits(0x8000_0001, power_of_two(-149)), 0);
    assert_eq!(f32_bits(0, -power_of_two(-1022)), 0x8000_0000);
    // Adding zero makes a negative zero positive.
    assert_eq!(f32_bits(0x8000_0000, 0.0), 0);
    assert_eq!(bf16_bits(0x8000, 0.0), 0);
    for bits in [0x7F80, 0xFF80, 0x7F81, 0xFFC1, 0x7FFF] {
        assert_eq!(bf16_bits(bits, -1e300), bits);
        let wide = u32::from(bits) << 16 | 1;
        assert_eq!(f32_bits(wide, 1e300), wide);
    }
}

fn head(rank: u16, bits: u8, rows: u32, columns: u32) -> LowRankHead {
    LowRankHead {
        rank,
        bits,
        shifts: [8, 9],
        rows,
        columns,
    }
}

/// Returns pseudo-random factors that use all their bits.
fn low_rank(head: LowRankHead, dtype: Dtype, mut seed: u64) -> LowRank {
    let factors = (0..head.factors()).map(|_| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((seed >> 32) as i32) >> (32 - head.bits)
    });
    LowRank {
        head,
        dtype,
        factors: Factors::new(factors.collect(), &head),
    }
}

fn values(low_rank: &LowRank) -> Vec<i64> {
    match &low_rank.factors {
        Factors::Narrow(values) => values.iter().map(|&v| v.into()).collect(),
        Factors::Wide(values) => values.iter().map(|&v| v.into()).collect(),
    }
}

/// Computes the whole prediction with integers.
fn slow(low_rank: &LowRank, base: &[u8]) -> Vec<u8> {
    let head = low_rank.head;
    let (rank, rows) = (usize::from(head.rank), head.rows as usize);
    let columns = head.columns as usize;
    let values = values(low_rank);
    let (left, right) = values.split_at(rank * rows);
    let mut out = Vec::new();
    for at in 0..rows * columns {
        let (row, column) = (at / columns, at % columns);
        let sum = (0..rank)
            .map(|j| left[row * rank + j] * right[j * columns + column])
            .sum();
        if low_rank.dtype == Dtype::F32 {
            let bits = u32::from_le_bytes(base[4 * at..][..4].try_into().unwrap());
            out.extend(expected(bits, sum, -head.shift(), false).to_le_bytes());
        } else {
            let bits = u16::from_le_bytes(base[2 * at..][..2].try_into().unwrap());
            let wide = expected(u32::from(bits) << 16, sum, -head.shift(), true);
            out.extend(((wide >> 16) as u16).to_le_bytes());
        }
    }
    out
}

fn written(low_rank: &LowRank) -> Vec<u8> {
    let mut out = Vec::new();
    low_rank.write(&mut out);
    out
}

proptest! {
    #[test]
    fn single_elements(base: u32, sum in -(1i64 << 53)..=1 << 53, shift in -200..130, drop in 0..53) {
        check(base, sum >> drop, shift);
    }

    #[test]
    fn near_ties(base: u32, units in -64i64..64, off in -2i64..=2, places in 1..28) {
        // Values around half of the last place, of the base and of a bfloat16.
        let exponent = (base >> 23 & 255).max(1) as i32 - 150;
        for unit in [exponent, exponent + 16] {
            let sum = ((2 * units + 1) << places) + off;
            check(base, sum, unit - 1 - places);
        }
    }

    #[test]
    fn matrices(
        bits in 2u8..=24, rank in 1u16..6, rows in 6u32..9, columns in 6u32..700,
        f32: bool, seed: u64, shift in 0i16..60, range in (0.0..1.0, 0.0..1.0),
    ) {
        let dtype = if f32 { Dtype::F32 } else { Dtype::Bf16 };
        let head = LowRankHead { shifts: [shift, -5], ..head(rank, bits, rows, columns) };
        let original = low_rank(head, dtype, seed);
        let bytes = written(&original);
        prop_assert_eq!(bytes.len() as u64, original.len_bytes());
        let elements = rows as usize * columns as usize;
        let mut cursor = Cursor::new(&bytes);
        let read = LowRank::parse(&mut cursor, dtype, elements as u64).unwrap();
        prop_assert_eq!(cursor.remaining(), 0);
        prop_assert_eq!(&read, &original);

        let width = if f32 { 4 } else { 2 };
        let base: Vec<u8> = (0..elements * width).map(|i| (i.wrapping_mul(i).wrapping_mul(31) + i / 7) as u8).collect();
        let slow = slow(&read, &base);
        let mut out = vec![0; base.len()];
        read.predict(&base, 0..elements, &mut out);
        prop_assert_eq!(&out, &slow);
        // Every range of elements can be predicted on its own.
        let place = |share: f64| (share * elements as f64) as usize;
        let (a, b) = (place(range.0), place(range.1));
        let (start, end) = (a.min(b), a.max(b));
        let bytes = start * width..end * width;
        let mut out = vec![0; bytes.len()];
        read.predict(&base[bytes.clone()], start..end, &mut out);
        prop_assert_eq!(&out, &slow[bytes]);
    }
}

#[test]
fn sums_at_the_limit_of_each_path_are_exact() {
    // The products are largest if all factors are the most negative ones.
    for (rank, bits) in [
        (1, 13),
        (2, 13),
        (16, 11),
        (17, 11),
        (128, 9),
        (8, 24),
        (128, 24),
        (33, 12),
    ] {
        let head = LowRankHead {
            shifts: [2 * i16::from(bits), 0],
            ..head(rank, bits, 128, 130)
        };
        let count = head.factors() as usize;
        let low_rank = LowRank {
            head,
            dtype: Dtype::F32,
            factors: Factors::new(vec![-1 << (bits - 1); count], &head),
        };
        let bytes = written(&low_rank);
        let elements = 128 * 130;
        let read = LowRank::parse(&mut Cursor::new(&bytes), Dtype::F32, elements).unwrap();
        let mut out = [0; 4];
        read.predict(&[0; 4], 77..78, &mut out);
        assert_eq!(f32::from_le_bytes(out), f32::from(rank) / 4.0);
    }
}

#[test]
fn factors_are_packed_from_the_lowest_bit() {
    let low_rank = LowRank {
        head: head(1, 3, 2, 1),
        dtype: Dtype::Bf16,
        factors: Factors::new(vec![-4, 3, -1], &head(1, 3, 2, 1)),
    };
    let bytes = written(&low_rank);
    // The stored factors are 0, 7 and 3: 0b011_111_000.
    assert_eq!(bytes[15..], [0b1111_1000, 0]);
    assert_eq!(bytes[..15], [1, 0, 3, 8, 0, 9, 0, 2, 0, 0, 0, 1, 0, 0, 0]);
}

#[test]
fn rows_need_their_factors_and_all_right_ones() {
    let head = head(3, 5, 20, 7);
    let [left, right] = head.ranges(4..6);
    assert_eq!(left, 15 + 60 / 8..15 + 90_u64.div_ceil(8));
    assert_eq!(right, 15 + 300 / 8..head.len_bytes());
}

#[test]
fn each_field_has_its_limits() {
    let refusal = |change: &dyn Fn(&mut LowRankHead), dtype, elements| {
        let mut bytes = written(&low_rank(head(2, 4, 6, 5), Dtype::Bf16, 1));
        let mut fields = head(2, 4, 6, 5);
        change(&mut fields);
        let mut start = Vec::new();
        fields.write(&mut start);
        bytes[..15].copy_from_slice(&start);
        let error = LowRank::parse(&mut Cursor::new(&bytes), dtype, elements).unwrap_err();
        error.rule().unwrap()
    };
    let bf16 = Dtype::Bf16;
    assert_eq!(refusal(&|_| (), Dtype::F16, 30), Rule::LowRankDtype);
    assert_eq!(refusal(&|_| (), bf16, 31), Rule::LowRankShape);
    assert_eq!(refusal(&|h| h.rank = 0, bf16, 30), Rule::LowRankShape);
    assert_eq!(refusal(&|h| h.rank = 6, bf16, 30), Rule::LowRankShape);
    assert_eq!(refusal(&|h| h.rows = 0, bf16, 0), Rule::LowRankShape);
    let large = |h: &mut LowRankHead| *h = head(1025, 2, 2000, 2000);
    assert_eq!(refusal(&large, bf16, 4_000_000), Rule::LowRankShape);
    assert_eq!(refusal(&|h| h.bits = 1, bf16, 30), Rule::LowRankBits);
    assert_eq!(refusal(&|h| h.bits = 25, bf16, 30), Rule::LowRankBits);
    assert_eq!(
        refusal(&|h| h.shifts = [1023, 0], bf16, 30),
        Rule::LowRankShift
    );
    assert_eq!(
        refusal(&|h| h.shifts = [-971, 0], bf16, 30),
        Rule::LowRankShift
    );
    let most = |h: &mut LowRankHead| h.shifts = [i16::MAX, i16::MAX];
    assert_eq!(refusal(&most, bf16, 30), Rule::LowRankShift);
    // Sums of rank 129 with 24 bits exceed 2^53.
    let large = |h: &mut LowRankHead| *h = head(129, 24, u32::MAX, u32::MAX);
    let elements = u64::from(u32::MAX) * u64::from(u32::MAX);
    assert_eq!(refusal(&large, bf16, elements), Rule::LowRankBits);
    // A head without its factors allocates no memory for them.
    let large = |h: &mut LowRankHead| *h = head(128, 24, u32::MAX, u32::MAX);
    assert_eq!(refusal(&large, bf16, elements), Rule::Truncated);
}

#[test]
fn cuts_and_padding() {
    let original = low_rank(head(1, 3, 2, 3), Dtype::Bf16, 5);
    let bytes = written(&original);
    assert_eq!(bytes.len(), 15 + 2);
    for len in 0..bytes.len() {
        let error = LowRank::parse(&mut Cursor::new(&bytes[..len]), Dtype::Bf16, 6).unwrap_err();
        assert_eq!(error.rule(), Some(Rule::Truncated), "{len}");
    }
    let mut padded = bytes.clone();
    padded[16] |= 0x80;
    let error = LowRank::parse(&mut Cursor::new(&padded), Dtype::Bf16, 6).unwrap_err();
    assert_eq!(error.rule(), Some(Rule::LowRankPadding));
    assert_eq!(error.offset(), Some(16));
}

#[test]
fn the_worked_example() {
    // docs/formats/zxd1.md 13.2
    let bytes = [
        1, 0, 3, 4, 0, 4, 0, 2, 0, 0, 0, 1, 0, 0, 0, //
        0xF8, 0x00,
    ];
    let read = LowRank::parse(&mut Cursor::new(&bytes), Dtype::Bf16, 2).unwrap();
    assert_eq!(values(&read), [-4, 3, -1]);
    assert_eq!(written(&read), bytes);
    let base = [0x80, 0x3F, 0x00, 0xBC];
    let mut out = [0; 4];
    read.predict(&base, 0..2, &mut out);
    assert_eq!(out, [0x82, 0x3F, 0xA0, 0xBC]);
}
