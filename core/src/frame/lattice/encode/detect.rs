//! Detects from samples whether the elements of a tensor lie on a grid, and how
//! they are grouped.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::super::GroupLayout;
use super::CandidateGrid;
use super::group::{Fitter, Scales};
use super::{Matrix, Rounded};
use crate::bytes::index;
use crate::entropy::histogram::{entropy_bits, values};
use crate::float::FloatType;
use crate::sort;

/// A grid and a division into groups that the samples are consistent with.
pub struct Found {
    pub geometry: GroupLayout,
    pub candidate: CandidateGrid,
    /// The anchors of the sampled groups, the most frequent first. An anchor is the grid
    /// magnitude of the largest element of a group.
    pub anchors: Vec<f64>,
}

/// Length and number of the runs of elements that are examined first. Every
/// layout has groups that contain whole runs. If the runs are inconsistent with a
/// grid, it is ruled out.
const RUN: u32 = 16;
const RUNS: usize = 4;
/// How many of these runs are examined along columns, and for grids with two-byte
/// symbols.
const RUNS_DOWN: usize = 2;
const LARGE_RUNS: usize = 2;
/// Positions that are tried until the required number of runs have
/// [`MIN_DISTINCT`] distinct elements each.
const RUN_PLACES: u64 = 16;
/// A run with fewer distinct elements is consistent with any grid.
const MIN_DISTINCT: usize = 3;

/// For each layout, this many groups are sampled, or more if it takes more to sample
/// [`ELEMENTS`] elements.
const GROUPS: u64 = 24;
const ELEMENTS: u64 = 4096;
/// Number of elements examined in one group, for grids with one- and two-byte
/// symbols.
const GROUP_ELEMENTS: u64 = 4096;
const LARGE_GROUP_ELEMENTS: u64 = 256;
/// At least about this many rows of a group are examined, if it has so many.
const MIN_ROWS: u64 = 8;
/// Typical entropy in bits of a two-byte symbol, and of the exponent of a scale.
const F16_BITS: f64 = 13.0;
const BF16_BITS: f64 = 11.0;
const SCALE_EXPONENT_BITS: f64 = 3.0;
/// The minimum percentage of sampled groups that must fit the grid.
const MIN_PERCENT: u64 = 70;

/// Returns the combinations of grid and groups that the tensor appears to have,
/// in ascending order of expected size.
pub fn all(bytes: &[u8], float: FloatType, shape: &[u64]) -> Vec<Found> {
    let views = views(shape);
    let mut found: Vec<(f64, Found)> = Vec::new();
    for along_rows in [true, false] {
        let Some(&(rows, columns)) = views.last() else {
            continue;
        };
        let matrix = Matrix {
            bytes,
            float,
            columns,
        };
        let runs = runs(matrix, rows, along_rows);
        for candidate in candidates(float) {
            if !may_be(&runs, &candidate, along_rows) {
                continue;
            }
            found.extend(
                layouts(&views, along_rows)
                    .into_iter()
                    .filter_map(|geometry| {
                        let columns = geometry.columns;
                        measure(Matrix { columns, ..matrix }, geometry, &candidate)
                    }),
            );
        }
        if !found.is_empty() {
            break;
        }
    }
    found.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    found.into_iter().map(|(_, found)| found).collect()
}

/// Returns the matrices, as rows and columns, that a tensor of this shape can be
/// viewed as: all dimensions except the first combined into columns, or all
/// except the last combined into rows. The view with fewer columns comes last.
fn views(shape: &[u64]) -> Vec<(u32, u32)> {
    let (Some((&first, inner)), Some((&last, outer))) = (shape.split_first(), shape.split_last())
    else {
        return Vec::new();
    };
    if shape.len() < 2 {
        return Vec::new();
    }
    let view = |rows: u64, columns: u64| {
        let fits = rows > 0 && columns > 0;
        Some((u32::try_from(rows).ok()?, u32::try_from(columns).ok()?)).filter(|_| fits)
    };
    // The caller has checked that the product of the whole shape does not
    // overflow.
    let mut views = vec![view(first, inner.iter().product())];
    if shape.len() > 2 && last >= RUN.into() {
        views.push(view(outer.iter().product(), last));
    }
    views.into_iter().flatten().collect()
}

fn candidates(float: FloatType) -> Vec<CandidateGrid> {
    let mut candidates = vec![
        CandidateGrid::Integers,
        CandidateGrid::nf4(),
        CandidateGrid::E4m3,
    ];
    if float == FloatType::F32 {
        candidates.extend([CandidateGrid::F16, CandidateGrid::Bf16]);
    }
    candidates
}

/// Returns the group layouts to try, roughly in descending order of group size.
fn layouts(views: &[(u32, u32)], along_rows: bool) -> Vec<GroupLayout> {
    let mut layouts: Vec<GroupLayout> = Vec::new();
    let mut add = |(rows, columns): (u32, u32), group_rows: u32, group_columns: u32| {
        let geometry = GroupLayout {
            rows,
            columns,
            group_rows: group_rows.min(rows),
            group_columns: group_columns.min(columns),
        };
        if !layouts.contains(&geometry) {
            layouts.push(geometry);
        }
    };
    let Some(&finest) = views.last() else {
        return layouts;
    };
    if along_rows {
        views
            .iter()
            .take(1)
            .for_each(|&view| add(view, view.0, view.1));
        add(finest, 128, 128);
        views.iter().for_each(|&view| add(view, 1, view.1));
        for columns in [256, 128, 64, 32, 16] {
            if columns < finest.1 {
                add(finest, 1, columns);
            }
        }
    } else {
        for rows in [u32::MAX, 256, 128, 64, 32, 16] {
            if rows == u32::MAX || rows < finest.0 {
                add(finest, rows, 1);
            }
        }
    }
    layouts
}

/// Returns the distinct elements of a few short runs, leaving out runs with too
/// few distinct elements.
fn runs(matrix: Matrix, rows: u32, along_rows: bool) -> Vec<Vec<Rounded>> {
    let (rows, columns) = (u64::from(rows), u64::from(matrix.columns));
    let (along, across, count) = match along_rows {
        true => (columns, rows, RUNS),
        false => (rows, columns, RUNS_DOWN),
    };
    let run = along.min(RUN.into());
    let places = (0..RUN_PLACES).map(|place| {
        // Odd steps spread the positions over both dimensions.
        let line = place * 7 % RUN_PLACES * across / RUN_PLACES + across / RUN_PLACES / 2;
        let start = place * 5 % RUN_PLACES * (along / run) / RUN_PLACES * run;
        (line..line + 1, start..start + run)
    });
    let elements = places.filter_map(|(line, span)| {
        let (rows, columns) = if along_rows {
            (line, span)
        } else {
            (span, line)
        };
        let mut keys = Vec::with_capacity(index(run));
        for row in rows {
            matrix.each_key(row, &columns, |key| {
                keys.push(key);
                true
            });
        }
        keys.sort_unstable();
        keys.dedup();
        if *keys.last()? >= matrix.float.infinite_key() {
            return None;
        }
        let nonzero = keys.into_iter().filter(|&key| key > 1);
        let elements: Vec<_> = nonzero.map(|key| Rounded::of(matrix.float, key)).collect();
        (elements.len() >= MIN_DISTINCT).then_some(elements)
    });
    elements.take(count).collect()
}

/// Returns whether any of these runs is consistent with the grid `candidate`. In nearly
/// all tensors that do not lie on the grid, no run is.
fn may_be(runs: &[Vec<Rounded>], candidate: &CandidateGrid, along_rows: bool) -> bool {
    let runs = match candidate.is_small() {
        true => runs,
        // Checking a run takes long for these grids, and none fits them by
        // chance. No known tool scales such weights by column.
        false if along_rows => &runs[..runs.len().min(LARGE_RUNS)],
        false => return false,
    };
    if runs.is_empty() {
        // There are hardly any distinct elements, so integers do as well as any
        // other grid.
        return *candidate == CandidateGrid::Integers;
    }
    let anchors = [candidate.anchors(false), candidate.anchors(true)];
    runs.iter().any(|run| {
        let is_negative = run.last().is_some_and(|largest| largest.is_negative);
        Scales::of(candidate, run, &anchors[usize::from(is_negative)]).is_some()
    })
}

/// Returns the expected number of bits per element if the tensor lies on this
/// grid in these groups, or `None` if it does not.
fn measure(
    matrix: Matrix,
    geometry: GroupLayout,
    candidate: &CandidateGrid,
) -> Option<(f64, Found)> {
    let groups = geometry.groups();
    let group_elements = u64::from(geometry.group_rows) * u64::from(geometry.group_columns);
    let samples = (ELEMENTS / group_elements).max(GROUPS).min(groups);
    let mut fitter = Fitter::new(matrix, candidate, &[]);
    let mut counts = vec![0; 256];
    let mut anchors: BTreeMap<u64, (u64, f64)> = BTreeMap::new();
    let mut failed = 0;
    let mut scale_bits = 0;
    for sample in 0..samples {
        let group = (2 * sample + 1) * groups / (2 * samples);
        let (rows, columns) = geometry.group(group);
        let (rows, columns) = part(rows, columns, candidate);
        let put = |_, _, symbol: u16| counts[usize::from(symbol & 0xff)] += 1;
        match fitter.code(rows, &columns, 1.0, put) {
            Some(fit) => {
                // Counts the significant mantissa bits, without trailing zeros.
                scale_bits += 23 - (fit.scale.to_bits() | 1 << 23).trailing_zeros();
                // The bits of positive floats sort in ascending order of
                // magnitude.
                let anchor = anchors
                    .entry(fit.anchor.to_bits())
                    .or_insert((0, fit.anchor));
                anchor.0 += 1;
            }
            None => failed += 1,
        }
        if failed * 100 > samples * (100 - MIN_PERCENT) {
            return None;
        }
    }
    let counted: u64 = counts.iter().sum();
    let symbol_bits = match candidate {
        CandidateGrid::F16 => F16_BITS,
        CandidateGrid::Bf16 => BF16_BITS,
        // The entropy of a small sample is too low, by about 0.72 bits per
        // distinct value.
        _ => (entropy_bits(&counts) + 0.72 * values(&counts) as f64) / counted.max(1) as f64,
    };
    let failed = failed as f64 / samples as f64;
    let item_bits = (8 * matrix.float.len_bytes()) as f64;
    let scale_bits = SCALE_EXPONENT_BITS + f64::from(scale_bits) / samples as f64;
    let bits =
        symbol_bits * (1.0 - failed) + item_bits * failed + scale_bits / group_elements as f64;
    let anchors = sort::sorted(anchors.into_values().collect(), |(count, anchor)| {
        (u64::MAX - count, anchor.to_bits())
    });
    let found = Found {
        geometry,
        candidate: candidate.clone(),
        anchors: anchors.into_iter().map(|(_, anchor)| anchor).collect(),
    };
    Some((bits, found))
}

/// Returns the rows and columns of a group that are examined.
fn part(
    rows: Range<u64>,
    columns: Range<u64>,
    candidate: &CandidateGrid,
) -> (impl Iterator<Item = u64> + Clone, Range<u64>) {
    let most = if candidate.is_small() {
        GROUP_ELEMENTS
    } else {
        LARGE_GROUP_ELEMENTS
    };
    // Examine several rows, since each may have its own scale.
    let columns_most = most / (rows.end - rows.start).min(MIN_ROWS);
    let width = (columns.end - columns.start).min(columns_most);
    let step = (rows.end - rows.start).div_ceil(most / width);
    (
        rows.step_by(index(step)),
        columns.start..columns.start + width,
    )
}
