//! Encoder of a `ZXQ1` frame, for a tensor whose elements are values of a small grid
//! times the scale of their group.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::GroupLayout;
use crate::TensorRef;
use crate::bytes::index;
use crate::engine::PackEngine;
use crate::float::{FloatType, from_bf16, from_f16, to_bf16, to_f16};
use crate::frame::FrameFamily as _;
use crate::frame::lattice::e4m3;
use crate::frame::select::EncodeOptions;
use detect::Found;
use group::Fitter;

mod detect;
mod group;
mod write;

/// Tensors with fewer elements are not examined.
const MIN_ELEMENTS: usize = 1024;

/// Returns the frame of `tensor`, or `None` if no lattice was found that restores
/// every bit.
#[must_use]
pub fn encode<E: PackEngine>(
    engine: &E,
    tensor: TensorRef,
    options: EncodeOptions,
) -> Option<Vec<u8>> {
    let float = FloatType::from_dtype(tensor.dtype?)?;
    let count = tensor.bytes.len() / float.len_bytes();
    let elements = tensor
        .shape
        .iter()
        .try_fold(1, |all: u64, &n| all.checked_mul(n))?;
    let is_whole =
        (elements.checked_mul(float.len_bytes() as u64)) == Some(tensor.bytes.len() as u64);
    if count < MIN_ELEMENTS || !is_whole {
        return None;
    }
    let found = detect::all(tensor.bytes, float, tensor.shape);
    found.iter().find_map(|found| {
        let bytes = tensor.bytes;
        let coded = code(engine, bytes, float, found)?;
        let frame = write::frame(engine, bytes, float, found, coded, options);
        // Every symbol has already been compared with its element. Decoding the
        // finished frame costs little more, and nothing else would reveal a
        // mistake before the original is discarded.
        let decoded = super::Frame::parse(&frame).and_then(|frame| frame.decompress(engine));
        decoded
            .is_ok_and(|decoded| decoded == bytes)
            .then_some(frame)
    })
}

/// The approximate number of elements that one job encodes.
const JOB_ELEMENTS: u64 = 1 << 17;

/// The encoded groups of a tensor.
struct Coded {
    /// A scale for every group.
    pub scales: Vec<f32>,
    /// The symbols from [`CandidateGrid::symbol`], one or two bytes each. The symbols are
    /// zero in groups that do not fit the grid.
    pub symbols: Vec<u8>,
    /// The indices of groups that do not fit the grid, in ascending order.
    pub exceptions: Vec<u64>,
}

/// Encodes all groups. Returns `None` if more than half of them do not fit the
/// grid.
fn code<E: PackEngine>(engine: &E, bytes: &[u8], float: FloatType, found: &Found) -> Option<Coded> {
    let GroupLayout {
        rows,
        columns,
        group_rows,
        ..
    } = found.geometry;
    let matrix = Matrix {
        bytes,
        float,
        columns,
    };
    let symbol_bytes = if found.candidate.is_small() { 1 } else { 2 };
    let band_elements = u64::from(group_rows) * u64::from(columns);
    let bands = rows.div_ceil(group_rows);
    let job_bands = (JOB_ELEMENTS / band_elements).max(1);
    let mut symbols = vec![0; index(found.geometry.elements()) * symbol_bytes];
    let firsts = (0..u64::from(bands)).step_by(index(job_bands));
    let pieces = symbols.chunks_mut(index(job_bands * band_elements) * symbol_bytes);
    let jobs: Vec<_> = firsts.zip(pieces).collect();
    let coded = engine.map(jobs, |(first, symbols)| {
        let mut fitter = Fitter::new(matrix, &found.candidate, &found.anchors);
        let first_row = first * u64::from(group_rows);
        let across = found.geometry.groups_across();
        let last = (first + job_bands).min(bands.into());
        let (mut scales, mut exceptions) = (Vec::new(), Vec::new());
        let mut idle = 1.0;
        for group in first * across..last * across {
            let (rows, group_columns) = found.geometry.group(group);
            let put = |row: u64, column: u64, symbol: u16| {
                let at = index((row - first_row) * u64::from(columns) + column) * symbol_bytes;
                let [low, high] = symbol.to_le_bytes();
                symbols[at] = low;
                if symbol_bytes == 2 {
                    symbols[at + 1] = high;
                }
            };
            match fitter.code(rows, &group_columns, idle, put) {
                Some(fit) => idle = fit.scale,
                None => exceptions.push(group),
            }
            scales.push(idle);
        }
        (scales, exceptions)
    });
    let (mut scales, mut exceptions) = (Vec::new(), Vec::new());
    for (some, missing) in coded {
        scales.extend(some);
        exceptions.extend(missing);
    }
    (exceptions.len() * 2 <= scales.len()).then_some(Coded {
        scales,
        symbols,
        exceptions,
    })
}

/// The bits of an element, rotated so that the sign is the lowest bit. Keys of
/// equal sign are ordered by magnitude.
type Key = u32;

/// The elements of a tensor in row-major order.
#[derive(Clone, Copy)]
struct Matrix<'a> {
    pub bytes: &'a [u8],
    pub float: FloatType,
    pub columns: u32,
}

impl<'a> Matrix<'a> {
    /// Returns the bytes of the elements of `row` in `columns`.
    pub fn bytes_of(&self, row: u64, columns: &Range<u64>) -> &'a [u8] {
        let item_bytes = self.float.len_bytes();
        let start = index(row * u64::from(self.columns) + columns.start) * item_bytes;
        &self.bytes[start..start + index(columns.end - columns.start) * item_bytes]
    }

    /// Calls `visit` with the key of each element of `row` in `columns` until `visit`
    /// returns `false`. Returns whether it returned `true` for every element.
    pub(crate) fn each_key(
        &self,
        row: u64,
        columns: &Range<u64>,
        mut visit: impl FnMut(Key) -> bool,
    ) -> bool {
        let bytes = self.bytes_of(row, columns);
        match self.float {
            FloatType::Bf16 | FloatType::F16 => bytes
                .as_chunks::<2>()
                .0
                .iter()
                .all(|&bits| visit(u16::from_le_bytes(bits).rotate_left(1).into())),
            FloatType::F32 => bytes
                .as_chunks::<4>()
                .0
                .iter()
                .all(|&bits| visit(u32::from_le_bytes(bits).rotate_left(1))),
        }
    }
}

impl FloatType {
    /// Returns the key of positive infinity. Keys of finite elements are
    /// smaller.
    pub(crate) fn infinite_key(self) -> Key {
        match self {
            Self::Bf16 => 0x7f80 << 1,
            Self::F16 => 0x7c00 << 1,
            Self::F32 => 0x7f80_0000 << 1,
        }
    }

    /// Returns the magnitude of the finite element with the key `key`.
    fn magnitude(self, key: Key) -> f64 {
        let [a, b, ..] = (key >> 1).to_le_bytes();
        let half = u16::from_le_bytes([a, b]);
        f64::from(match self {
            Self::Bf16 => from_bf16(half),
            Self::F16 => from_f16(half),
            Self::F32 => f32::from_bits(key >> 1),
        })
    }

    /// Returns the key of the element to which `product` rounds.
    #[inline]
    pub fn key(self, product: f32) -> Key {
        match self {
            Self::Bf16 => to_bf16(product).rotate_left(1).into(),
            Self::F16 => to_f16(product).rotate_left(1).into(),
            Self::F32 => product.to_bits().rotate_left(1),
        }
    }
}

/// A nonzero element and the interval of magnitudes that round to it.
#[derive(Clone, Copy)]
struct Rounded {
    pub value: f64,
    pub low: f64,
    pub high: f64,
    pub is_negative: bool,
}

impl Rounded {
    /// Computes the interval of a finite, nonzero element from its key.
    pub fn of(float: FloatType, key: Key) -> Self {
        let value = float.magnitude(key);
        let below = (value - float.magnitude(key - 2)) / 2.0;
        let above = match key + 2 < float.infinite_key() {
            true => (float.magnitude(key + 2) - value) / 2.0,
            false => below,
        };
        Self {
            value,
            low: value - below,
            high: value + above,
            is_negative: key & 1 != 0,
        }
    }
}

/// The largest magnitude of an integer on the grid.
const MAX_INTEGER: u8 = 127;

/// The 16 levels of NF4, a four-bit "normal float": quantiles of a normal
/// distribution, as defined by the library bitsandbytes.
const NF4: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

/// A grid that the encoder tries.
#[derive(Debug, Clone, PartialEq)]
enum CandidateGrid {
    /// Integers with magnitudes up to [`MAX_INTEGER`]. Four-bit floats are on
    /// this grid as well, since twice their values are integers.
    Integers,
    /// The values of a table, in ascending order.
    Table(Vec<f32>),
    /// The values of the format e4m3fn.
    E4m3,
    /// Half-precision floats.
    F16,
    /// bfloat16 floats.
    Bf16,
}

impl CandidateGrid {
    /// Returns the grid of the NF4 levels.
    pub(crate) fn nf4() -> Self {
        Self::Table(NF4.to_vec())
    }

    /// Returns whether symbols are one byte long.
    pub fn is_small(&self) -> bool {
        !matches!(self, Self::F16 | Self::Bf16)
    }

    /// Returns the grid magnitudes to try for the largest element of a group.
    pub fn anchors(&self, is_negative: bool) -> Vec<f64> {
        match self {
            Self::Integers => (1..=MAX_INTEGER).map(f64::from).collect(),
            Self::Table(values) => {
                let values = values.iter().map(|&value| f64::from(value));
                let signed = values.filter(|&value| value != 0.0 && (value < 0.0) == is_negative);
                let mut anchors: Vec<f64> = signed.map(f64::abs).collect();
                anchors.sort_unstable_by(|a, b| b.total_cmp(a));
                anchors
            }
            // The eight largest values, 240 to 448, which have the eight
            // different significands.
            Self::E4m3 => (0x77..=0x7e).rev().map(|code| e4m3(code).into()).collect(),
            Self::F16 => (1024..2048)
                .map(|mantissa| f64::from(mantissa * 32))
                .collect(),
            Self::Bf16 => (128..256).map(f64::from).collect(),
        }
    }

    /// Returns the symbol, of one or two bytes, of a value on the grid. The
    /// symbol of an integer is its two's complement byte; −128 means −0.
    #[allow(clippy::cast_possible_truncation)] // integers up to 127
    pub fn symbol(&self, value: f32) -> u16 {
        let is_negative_zero = value.to_bits() == 1 << 31;
        match self {
            Self::Integers if is_negative_zero => 0x80,
            Self::Integers => u16::from((value as i8).cast_unsigned()),
            Self::Table(values) => {
                let found = values
                    .iter()
                    .position(|entry| entry.to_bits() == value.to_bits());
                // −0 gets the symbol after the last entry; see `write`.
                u16::try_from(found.unwrap_or(values.len())).unwrap_or_default()
            }
            Self::E4m3 => {
                let sign = if value.is_sign_negative() { 0x80 } else { 0 };
                let code = (0..0x7f).find(|&code| e4m3(code) == value.abs());
                u16::from(code.unwrap_or_default() | sign)
            }
            Self::F16 => to_f16(value),
            Self::Bf16 => to_bf16(value),
        }
    }

    /// Returns whether both signs of zero have a symbol.
    pub(crate) fn has_zero(&self) -> bool {
        match self {
            Self::Table(values) => values.contains(&0.0),
            _ => true,
        }
    }

    /// Returns the magnitude on the grid that is nearest to `ratio`, which is
    /// positive, or 0 if `ratio` is beyond the grid.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // integers below 128, or rounding intended
    pub fn nearest(&self, ratio: f64, is_negative: bool) -> f64 {
        match self {
            Self::Integers => match ratio + 0.5 {
                rounded if rounded < 128.0 => f64::from(rounded as u8),
                _ => 0.0,
            },
            Self::Table(values) => {
                let target = if is_negative { -ratio } else { ratio };
                let distance = |value: f32| (f64::from(value) - target).abs();
                let nearest = values.iter().copied().reduce(|best, value| {
                    if distance(value) < distance(best) {
                        value
                    } else {
                        best
                    }
                });
                f64::from(nearest.unwrap_or_default()).abs()
            }
            Self::E4m3 => small_float(ratio, 4, 512.0, 448.0),
            Self::F16 => small_float(ratio, 11, 16_777_216.0, 65504.0),
            // The number is converted to bfloat16 and back, because subnormal numbers
            // have fewer significant bits.
            Self::Bf16 => from_bf16(to_bf16(significant(ratio, 8) as f32)).into(),
        }
    }
}

/// Rounds to a float of `bits` significant bits whose subnormal numbers are
/// multiples of 1/`steps`. Returns 0 above `max`.
#[inline]
#[allow(clippy::cast_possible_truncation)] // fewer than 2^11 steps
fn small_float(ratio: f64, bits: u32, steps: f64, max: f64) -> f64 {
    let smallest_normal = f64::from(1 << (bits - 1)) / steps;
    let rounded = match ratio < smallest_normal {
        true => f64::from((ratio * steps + 0.5) as u32) / steps,
        false => significant(ratio, bits),
    };
    if rounded > max { 0.0 } else { rounded }
}

/// Rounds to `bits` significant bits.
#[inline]
fn significant(ratio: f64, bits: u32) -> f64 {
    let dropped = 53 - bits;
    let rounded = ratio.to_bits() + (1 << (dropped - 1));
    f64::from_bits(rounded >> dropped << dropped)
}
