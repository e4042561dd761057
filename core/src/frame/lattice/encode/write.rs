//! Chooses the fields of a frame and assembles it.

use alloc::vec;
use alloc::vec::Vec;

use super::super::{Grid, GroupLayout, LatticeHead};
use super::CandidateGrid;
use super::detect::Found;
use super::{Coded, Matrix};
use crate::TensorRef;
use crate::bytes::index;
use crate::dtype::Dtype;
use crate::engine::PackEngine;
use crate::entropy::histogram::{count, entropy_bits};
use crate::float::{FloatType, from_bf16, from_f16, to_bf16, to_f16};
use crate::frame::Families;
use crate::frame::select::{self, EncodeOptions};

/// The two's complement byte that means −0 on the grid of integers.
const NEGATIVE_ZERO: u8 = 0x80;

/// Returns the frame of a tensor whose groups have been encoded.
pub fn frame<E: PackEngine>(
    engine: &E,
    bytes: &[u8],
    float: FloatType,
    found: &Found,
    coded: Coded,
    options: EncodeOptions,
) -> Vec<u8> {
    let geometry = found.geometry;
    let (scales, scale_bytes) = scales(&coded.scales);
    let exceptions = exceptions(bytes, float, geometry, &coded.exceptions);
    let (grid, symbols, offsets) = grid(&found.candidate, geometry, coded);
    let head = LatticeHead {
        elements: float,
        scales,
        grid,
        geometry,
        has_exceptions: exceptions.is_some(),
    };
    let options = options.extended(false).families(Families::CONTAINER);
    let shape = [geometry.rows.into(), geometry.columns.into()];
    let across = geometry.groups_across();
    let group_shape = [geometry.groups() / across, across];
    let pack = |bytes: &[u8], dtype: Dtype, shape: &[u64]| {
        select::encode(engine, TensorRef::new(bytes, dtype, shape), options)
    };
    let symbol_dtype = match found.candidate {
        CandidateGrid::F16 => Dtype::F16,
        CandidateGrid::Bf16 => Dtype::Bf16,
        _ => Dtype::U8,
    };
    let mut frames = vec![
        pack(&symbols, symbol_dtype, &shape),
        pack(&scale_bytes, scales.dtype(), &group_shape),
    ];
    frames.extend(offsets.map(|offsets| pack(&offsets, Dtype::U8, &group_shape)));
    if let Some((bitmap, elements)) = exceptions {
        frames.push(pack(&bitmap, Dtype::U8, &[bitmap.len() as u64]));
        let count = elements.len() / float.len_bytes();
        frames.push(pack(&elements, float.dtype(), &[count as u64]));
    }
    let mut out = Vec::new();
    head.write(&mut out);
    for frame in &frames {
        out.extend_from_slice(&(frame.len() as u64).to_le_bytes());
    }
    for frame in &frames {
        out.extend_from_slice(frame);
    }
    out
}

/// Returns the scales in the shortest dtype that represents all of them
/// exactly.
fn scales(scales: &[f32]) -> (FloatType, Vec<u8>) {
    let all = |is_exact: &dyn Fn(f32) -> bool| scales.iter().all(|&scale| is_exact(scale));
    if all(&|scale| from_bf16(to_bf16(scale)) == scale) {
        let halves = scales
            .iter()
            .flat_map(|&scale| to_bf16(scale).to_le_bytes());
        (FloatType::Bf16, halves.collect())
    } else if all(&|scale| scale < 65520.0 && from_f16(to_f16(scale)) == scale) {
        let halves = scales.iter().flat_map(|&scale| to_f16(scale).to_le_bytes());
        (FloatType::F16, halves.collect())
    } else {
        let floats = scales.iter().flat_map(|scale| scale.to_le_bytes());
        (FloatType::F32, floats.collect())
    }
}

/// Returns the bitmap of the exceptions and their elements, or `None` without
/// exceptions.
fn exceptions(
    bytes: &[u8],
    float: FloatType,
    geometry: GroupLayout,
    groups: &[u64],
) -> Option<(Vec<u8>, Vec<u8>)> {
    if groups.is_empty() {
        return None;
    }
    let matrix = Matrix {
        bytes,
        float,
        columns: geometry.columns,
    };
    let mut bitmap = vec![0; index(geometry.groups().div_ceil(8))];
    let mut elements = Vec::new();
    for &group in groups {
        bitmap[index(group / 8)] |= 1 << (group % 8);
        let (rows, columns) = geometry.group(group);
        for row in rows {
            elements.extend_from_slice(matrix.bytes_of(row, &columns));
        }
    }
    Some((bitmap, elements))
}

/// Returns the grid, the symbols in stored form, and the offsets of the groups
/// if the grid has them.
fn grid(
    candidate: &CandidateGrid,
    geometry: GroupLayout,
    coded: Coded,
) -> (Grid, Vec<u8>, Option<Vec<u8>>) {
    let symbols = coded.symbols;
    match candidate {
        CandidateGrid::Integers => integers(geometry, symbols),
        CandidateGrid::Table(values) => {
            let mut values = values.clone();
            let most = symbols.iter().copied().max().unwrap_or_default();
            if usize::from(most) == values.len() {
                values.push(-0.0);
            }
            (Grid::Table(values), symbols, None)
        }
        CandidateGrid::E4m3 => (Grid::E4m3, symbols, None),
        CandidateGrid::F16 => (Grid::F16, symbols, None),
        CandidateGrid::Bf16 => (Grid::Bf16, symbols, None),
    }
}

/// The fraction of the symbols' entropy that offsets must save.
const OFFSETS_MIN_GAIN: f64 = 0.002;

fn integers(geometry: GroupLayout, mut symbols: Vec<u8>) -> (Grid, Vec<u8>, Option<Vec<u8>>) {
    let integers = symbols.iter().filter(|&&symbol| symbol != NEGATIVE_ZERO);
    let magnitudes = integers.map(|symbol| symbol.cast_signed().unsigned_abs());
    let largest = magnitudes.max().unwrap_or_default().max(1);
    if let Some((last, offsets, shifted)) = shifted(geometry, &symbols, largest) {
        let plain = entropy_bits(&count(&symbols));
        let with_offsets = entropy_bits(&count(&shifted)) + entropy_bits(&count(&offsets));
        if with_offsets < plain * (1.0 - OFFSETS_MIN_GAIN) {
            return (Grid::OffsetIntegers { last }, shifted, Some(offsets));
        }
    }
    for symbol in &mut symbols {
        *symbol = match *symbol {
            NEGATIVE_ZERO => 2 * largest + 1,
            integer => integer.wrapping_add(largest),
        };
    }
    (Grid::Integers { largest }, symbols, None)
}

/// Shifts the symbols of each group by an offset so that they count from the
/// group's smallest integer or 0, whichever is less. Returns the last symbol of
/// an integer, the offsets and the shifted symbols, or `None` if this does not
/// take fewer distinct symbols.
fn shifted(geometry: GroupLayout, symbols: &[u8], largest: u8) -> Option<(u8, Vec<u8>, Vec<u8>)> {
    let columns = u64::from(geometry.columns);
    let of = |group: u64| {
        let (rows, columns_of) = geometry.group(group);
        rows.flat_map(move |row| {
            let start = row * columns;
            index(start + columns_of.start)..index(start + columns_of.end)
        })
    };
    let mut last = 1;
    let mut offsets = Vec::with_capacity(index(geometry.groups()));
    let signed = |symbol: u8| i16::from(symbol.cast_signed());
    for group in 0..geometry.groups() {
        let (mut low, mut high) = (0, 0);
        for symbol in of(group)
            .map(|at| symbols[at])
            .filter(|&s| s != NEGATIVE_ZERO)
        {
            low = low.min(signed(symbol));
            high = high.max(signed(symbol));
        }
        last = last.max(high - low);
        offsets.push(u8::try_from(low + 128).unwrap_or_default());
    }
    if last + i16::from(last < 8) >= 2 * i16::from(largest) {
        return None;
    }
    let last = u8::try_from(last).ok()?;
    let mut shifted = vec![0; symbols.len()];
    for (group, &offset) in (0..).zip(&offsets) {
        for at in of(group) {
            shifted[at] = match symbols[at] {
                NEGATIVE_ZERO => last + 1,
                symbol => symbol.wrapping_add(128).wrapping_sub(offset),
            };
        }
    }
    Some((last, offsets, shifted))
}
