//! Encoder of a frame. It is used if a lattice is detected in a tensor.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::GroupLayout;
use crate::TensorRef;
use crate::bytes::index;
use crate::engine::PackEngine;
use crate::float::{FloatType, from_bf16, from_f16, to_bf16, to_f16};
use crate::frame::FrameFamily as _;
use crate::frame::select::EncodeOptions;
use detect::Found;
use group::Fitter;

mod candidate_grid;
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
    /// The symbols from [`CandidateGrid::symbol`](candidate_grid::CandidateGrid::symbol), one or two
    /// bytes each; zeros in groups that do not fit the grid.
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

    /// Calls `visit` with the key of each element of `row` in `columns` until it
    /// returns `false`. Returns whether it never did.
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
    /// Creates it from the key of a finite, nonzero element.
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
