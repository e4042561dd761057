//! marlin-24: 2:4 sparse integers in the order of one GPU kernel
//! (docs/formats/compressed-tensors.md 9).

use alloc::vec::Vec;
use alloc::{format, vec};

use super::bit_packing::CodeLayout;
use super::checkpoint::{Role, TensorSpec, Views};
use super::dequantise::round_f16;
use super::geometry::WeightShape;
use super::scheme::{CodeType, Scheme, Strategy};
use crate::bytes::{buffer, index};
use crate::{Error, Result, Rule};

/// The number of consecutive codes that are permuted among each other.
const RUN: usize = 1024;
/// The order in which each run of 8 scales is stored, if there are several
/// groups.
const SCALE_ORDER: [usize; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

/// Checks the shapes of the parts, and returns the dense shape.
pub(crate) fn dense_shape(
    scheme: &Scheme,
    packed: &TensorSpec,
    scale: &TensorSpec,
    meta: &TensorSpec,
) -> Result<Vec<u64>> {
    let refuse = || {
        Error::malformed(
            Rule::CompressedTensorsShape,
            format!(
                "codes of shape {:?}, scales of {:?} and positions of {:?} do not match",
                packed.shape, scale.shape, meta.shape
            ),
        )
    };
    let (&[tiles, words], &[groups, rows], &[meta_rows, meta_columns]) = (
        packed.shape.as_slice(),
        scale.shape.as_slice(),
        meta.shape.as_slice(),
    ) else {
        return Err(refuse());
    };
    check_scheme(scheme)?;
    // Every dimension is derived from the shape of a stored tensor, so the
    // file's length bounds the number of elements.
    let columns = meta_rows.checked_mul(32).ok_or_else(refuse)?;
    let expected_groups = match group_size(scheme) {
        None => 1,
        Some(size) if columns.is_multiple_of(size) => columns / size,
        Some(_) => return Err(refuse()),
    };
    let fits = tiles == meta_rows
        && Some(meta_columns) == rows.checked_mul(2)
        && rows > 0
        && rows.is_multiple_of(64)
        && rows.checked_mul(u64::from(scheme.num_bits)) == words.checked_mul(2)
        && groups == expected_groups;
    if !fits || rows.checked_mul(columns).is_none() {
        return Err(refuse());
    }
    Ok(vec![rows, columns])
}

fn check_scheme(scheme: &Scheme) -> Result<()> {
    let known = matches!(scheme.num_bits, 4 | 8)
        && scheme.number == CodeType::Int
        && scheme.symmetric
        && matches!(scheme.strategy, Strategy::Channel | Strategy::Group { .. });
    if known {
        return Ok(());
    }
    Err(Error::malformed(
        Rule::CompressedTensorsScheme,
        "marlin-24 stores symmetric integers of 4 or 8 bits, scaled by channel or group",
    ))
}

fn group_size(scheme: &Scheme) -> Option<u64> {
    match scheme.strategy {
        Strategy::Group { size } => Some(size),
        _ => None,
    }
}

/// Decodes the dense weight in F16.
pub fn decode(scheme: &Scheme, geometry: &WeightShape, views: Views<'_>) -> Result<Vec<u8>> {
    let mut dense = buffer(super::dequantise::dense_len_bytes(
        crate::dtype::Dtype::F16,
        geometry,
    ))?;
    if dense.is_empty() {
        return Ok(dense);
    }
    let (rows, columns) = (index(geometry.rows), index(geometry.columns));
    let group_size = group_size(scheme).map_or(columns, index);
    let kept = kept_values(
        views.need(Role::Packed)?.bytes,
        scheme.num_bits,
        rows,
        columns / 2,
    );
    let permuted = matches!(scheme.strategy, Strategy::Group { .. }) && group_size < columns / 2;
    let scales = plain_scales(&views.need(Role::Scale)?.floats(), permuted);
    let meta = views.need(Role::Meta)?.bytes;
    for row in 0..rows {
        for sixteen in 0..columns / 16 {
            let place = meta_place(row, sixteen, rows) * 2;
            let codes = u16::from_le_bytes([meta[place], meta[place + 1]]);
            for four in 0..4 {
                let code = usize::from(codes >> (4 * four) & 0xF);
                let (first, second) = (code & 3, code >> 2);
                if first >= second {
                    return Err(Error::malformed(
                        Rule::CompressedTensorsPositions,
                        format!(
                            "a group of four in row {row} has the code {code}, which does not name two positions in ascending order"
                        ),
                    ));
                }
                let group = sixteen * 4 + four;
                for (which, position) in [first, second].into_iter().enumerate() {
                    let column = group * 4 + position;
                    let value = kept[row * (columns / 2) + group * 2 + which];
                    let scale = scales[column / group_size * rows + row];
                    dense[(row * columns + column) * 2..][..2]
                        .copy_from_slice(&round_f16(f32::from(value) * scale));
                }
            }
        }
    }
    Ok(dense)
}

/// Returns the stored values as a matrix with `rows` rows and `kept` columns.
/// The file contains the transpose in permuted order.
fn kept_values(packed: &[u8], bits: u8, rows: usize, kept: usize) -> Vec<i8> {
    let permutation = permutation(bits);
    let layout = CodeLayout::dense(bits);
    let half = 1i16 << (bits - 1);
    let mut values = vec![0; rows * kept];
    let row_codes = rows * 16;
    for (place, &plain) in (0..rows * kept).zip(permutation.iter().cycle()) {
        let code = i16::from(layout.code(packed, place)) - half;
        let tile = place / row_codes;
        let within = place % row_codes / RUN * RUN + plain;
        let (n, a, c) = (within / 256, within % 256 / 16, within % 16);
        values[(16 * n + c) * kept + 16 * tile + a] = code.to_le_bytes()[0].cast_signed();
    }
    values
}

/// Returns, for each packed code of a run, its index in the run without the
/// permutation.
fn permutation(bits: u8) -> Vec<usize> {
    let mut plain = Vec::with_capacity(RUN);
    for i in 0..32 {
        for j in 0..4 {
            for block in 0..2 {
                let row = 2 * (i % 4);
                for row in [row, row + 1, row + 8, row + 9] {
                    plain.push(16 * row + 256 * (i / 8) + 8 * (i / 4 % 2) + 4 * block + j);
                }
            }
        }
    }
    let order: &[usize] = match bits {
        4 => &[0, 2, 4, 6, 1, 3, 5, 7],
        _ => &[0, 2, 1, 3],
    };
    plain
        .chunks_exact(order.len())
        .flat_map(|few| order.iter().map(|&place| few[place]))
        .collect()
}

fn plain_scales(packed: &[f32], permuted: bool) -> Vec<f32> {
    if !permuted {
        return packed.to_vec();
    }
    let mut plain = vec![0.0; packed.len()];
    for (place, &scale) in packed.iter().enumerate() {
        plain[place / 8 * 8 + SCALE_ORDER[place % 8]] = scale;
    }
    plain
}

/// Returns the index in the `meta` tensor of the 16-bit word with the positions
/// of the values in 16 columns of a row. `column` is the number of the first of
/// these columns divided by 16.
fn meta_place(row: usize, column: usize, rows: usize) -> usize {
    let place =
        64 * (row / 64) + 2 * (row % 2) + row % 8 / 4 + 32 * (row % 4 / 2) + 4 * (row % 64 / 8);
    let (place, column) = match (place % 2, column % 2) {
        (0, 1) => (place + 1, column - 1),
        (1, 0) => (place - 1, column + 1),
        _ => (place, column),
    };
    column / 2 * 2 * rows + 2 * place + column % 2
}
