//! Encodes all groups of a tensor.

use alloc::vec;
use alloc::vec::Vec;

use super::super::Geometry;
use super::detect::Found;
use super::group::Fitter;
use super::sheet::Sheet;
use crate::bytes::index;
use crate::engine::PackEngine;
use crate::float::FloatType;

/// The approximate number of elements that one job encodes.
const JOB_ELEMENTS: u64 = 1 << 17;

/// The encoded groups of a tensor.
pub struct Coded {
    /// A scale for every group.
    pub scales: Vec<f32>,
    /// The symbols from [`Kind::symbol`](super::kind::Kind::symbol), one or two
    /// bytes each; zeros in groups that do not fit the grid.
    pub symbols: Vec<u8>,
    /// The indices of groups that do not fit the grid, in ascending order.
    pub exceptions: Vec<u64>,
}

/// Encodes all groups. Returns `None` if more than half of them do not fit the
/// grid.
pub fn code<E: PackEngine>(
    engine: &E,
    bytes: &[u8],
    float: FloatType,
    found: &Found,
) -> Option<Coded> {
    let Geometry {
        rows,
        columns,
        group_rows,
        ..
    } = found.geometry;
    let sheet = Sheet {
        bytes,
        float,
        columns,
    };
    let symbol_bytes = if found.kind.is_small() { 1 } else { 2 };
    let band_elements = u64::from(group_rows) * u64::from(columns);
    let bands = rows.div_ceil(group_rows);
    let job_bands = (JOB_ELEMENTS / band_elements).max(1);
    let mut symbols = vec![0; index(found.geometry.elements()) * symbol_bytes];
    let firsts = (0..u64::from(bands)).step_by(index(job_bands));
    let pieces = symbols.chunks_mut(index(job_bands * band_elements) * symbol_bytes);
    let jobs: Vec<_> = firsts.zip(pieces).collect();
    let coded = engine.map(jobs, |(first, symbols)| {
        let mut fitter = Fitter::new(sheet, &found.kind, &found.anchors);
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
