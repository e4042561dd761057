//! Groups of elements, and the scale of the changes in each
//! (docs/formats/zxd1.md 12).

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::Tensors;
use crate::engine::Engine;
use crate::float::FloatType;
use crate::frame::difference::context::{BY_MANTISSA, LAST_SCALE, SAME, UNIT};
use crate::frame::difference::float_format::{F32, Float, Word as _};
use crate::frame::difference::head::Means;

/// The smallest number of elements of a group that is worth a code of its own.
const MIN_ELEMENTS: usize = 64;
/// Number of elements whose changes are summed together. The order of addition
/// affects the result.
const CELL_ELEMENTS: usize = 1 << 14;
/// The least number of elements of a job.
pub(super) const JOB_ELEMENTS: usize = 1 << 18;

/// The groups of a tensor and their codes.
#[derive(Debug, Clone)]
pub(super) struct Groups {
    /// Number of elements of a group.
    pub elements: usize,
    /// The code of each group.
    pub codes: Vec<u8>,
    changes: Vec<Change>,
}

/// The changes of a range of elements.
#[derive(Debug, Clone, Copy, Default)]
struct Change {
    sum: f64,
    /// True if any bit differs.
    any: bool,
}

/// Returns the number of elements of a row, or of several innermost dimensions
/// if rows are too short to be worth a code of their own.
pub(crate) fn row_elements(shape: &[u64], elements: usize) -> usize {
    let mut row = 1;
    for &dimension in shape.iter().rev() {
        let Some(longer) = usize::try_from(dimension)
            .ok()
            .and_then(|d| d.checked_mul(row))
        else {
            return elements;
        };
        row = longer;
        if row >= MIN_ELEMENTS && row <= elements {
            return row;
        }
    }
    elements
}

impl Groups {
    /// Determines the scale of each group of `elements` elements.
    pub fn new<F: Float, E: Engine>(engine: &E, tensors: Tensors, elements: usize) -> Self {
        let all = tensors.current.len() / size_of::<F::Word>();
        let cells_per_group = elements.div_ceil(CELL_ELEMENTS);
        let cells = all.div_ceil(elements) * cells_per_group;
        let cell = |number: usize| {
            let group = number / cells_per_group * elements;
            let start = group + number % cells_per_group * CELL_ELEMENTS;
            let end = all.min(group + elements).min(start + CELL_ELEMENTS);
            start.min(end)..end
        };
        let cells_per_job = JOB_ELEMENTS.div_ceil(elements.min(CELL_ELEMENTS));
        let jobs: Vec<Range<usize>> = (0..cells)
            .step_by(cells_per_job)
            .map(|start| start..cells.min(start + cells_per_job))
            .collect();
        let changes = engine.map(jobs, |job| {
            let changes = job.map(|number| change::<F>(tensors, cell(number)));
            changes.collect::<Vec<_>>()
        });
        let cells = changes.concat();
        let changes: Vec<Change> = cells.chunks(cells_per_group).map(sum).collect();
        Self::with_changes(elements, all, changes)
    }

    fn with_changes(elements: usize, all: usize, changes: Vec<Change>) -> Self {
        let codes = changes.iter().enumerate().map(|(group, change)| {
            let len = elements.min(all - group * elements);
            code(*change, len)
        });
        Self {
            elements,
            codes: codes.collect(),
            changes,
        }
    }

    /// Returns the same groups with other codes.
    pub(crate) fn with_codes(&self, codes: Vec<u8>) -> Self {
        Self {
            codes,
            ..self.clone()
        }
    }

    /// Returns a single group of all `all` elements, or `None` if there already
    /// is only one.
    pub fn joined(&self, all: usize) -> Option<Self> {
        (self.codes.len() > 1).then(|| Self::with_changes(all, all, vec![sum(&self.changes)]))
    }

    /// Returns the groups of the elements `range`: the code of each, and its
    /// range relative to the start of `range`.
    pub fn within(&self, range: Range<usize>) -> impl Iterator<Item = (u8, Range<usize>)> + '_ {
        let first = range.start / self.elements;
        let codes = self.codes[first..].iter().enumerate();
        codes
            .map(move |(number, &code)| {
                let start = (first + number) * self.elements;
                let own =
                    start.max(range.start)..range.end.min(start.saturating_add(self.elements));
                (code, own.start..own.end.max(own.start), range.start)
            })
            .take_while(|(_, own, _)| !own.is_empty())
            .map(|(code, own, base)| (code, own.start - base..own.end - base))
    }
}

fn sum(changes: &[Change]) -> Change {
    changes.iter().fold(Change::default(), |all, more| Change {
        sum: all.sum + more.sum,
        any: all.any || more.any,
    })
}

fn change<F: Float>(tensors: Tensors, cell: Range<usize>) -> Change {
    const LANES: usize = 8;
    let width = size_of::<F::Word>();
    let bytes = cell.start * width..cell.end * width;
    let (current, predicted) = (&tensors.current[bytes.clone()], &tensors.predicted[bytes]);
    let mut sums = [0.0; LANES];
    let step = LANES * width;
    let mut add = |current: &[u8], predicted: &[u8]| {
        let pairs = F::Word::words(current).zip(F::Word::words(predicted));
        for (sum, (current, predicted)) in sums.iter_mut().zip(pairs) {
            *sum += (F::value(current) - F::value(predicted)).abs();
        }
    };
    let (whole, predicted_whole) = (current.chunks_exact(step), predicted.chunks_exact(step));
    let rest = (whole.remainder(), predicted_whole.remainder());
    for (current, predicted) in whole.zip(predicted_whole) {
        add(current, predicted);
    }
    add(rest.0, rest.1);
    Change {
        sum: sums.iter().sum(),
        any: current != predicted,
    }
}

/// Returns the code of a group of `len` elements: twice the base-2 logarithm of
/// the mean change, rounded, plus [`UNIT`].
fn code(change: Change, len: usize) -> u8 {
    if !change.any {
        return SAME;
    }
    let mean = change.sum / len as f64;
    let bits = mean.to_bits();
    let fraction = bits & ((1 << 52) - 1) | 1023 << 52;
    // The fourth roots of 2 and of 8, where the rounded result changes.
    let halves = match f64::from_bits(fraction) {
        m if m < 1.189_207_115_002_721 => 0,
        m if m < 1.681_792_830_507_429 => 1,
        _ => 2,
    };
    let exponent = i32::try_from(bits >> 52).unwrap_or(0) - 1023;
    let code = (UNIT + 2 * exponent + halves).clamp(0, LAST_SCALE);
    u8::try_from(code).unwrap_or(0)
}

/// The maximum number of elements that are examined to find the usual difference for each
/// value of the top mantissa bits.
const SAMPLE_ELEMENTS: usize = 1 << 17;
/// Usual differences exist if at least one in this many sampled elements has the most
/// frequent difference for its top mantissa bits.
const MIN_SHARE: usize = 100;

/// Returns the usual differences ([`Means`]), and the groups, in which a group that
/// follows the usual differences has the code [`BY_MANTISSA`]. Returns `None` if there
/// are no usual differences, or if the elements are not 32 bits wide.
pub(super) fn find<E: Engine>(
    engine: &E,
    tensors: Tensors,
    groups: &Groups,
) -> Option<(Means, Groups)> {
    if tensors.element != FloatType::F32 {
        return None;
    }
    let means = usual(tensors, groups)?;
    let per_job = JOB_ELEMENTS.div_ceil(groups.elements);
    let jobs: Vec<(usize, &[u8])> = (0..)
        .step_by(per_job)
        .zip(groups.codes.chunks(per_job))
        .collect();
    let codes = engine.map(jobs, |(first, codes)| {
        let numbered = (first..).zip(codes);
        let codes = numbered.map(|(group, &code)| match code {
            SAME => SAME,
            _ if follows(tensors, groups, group, &means) => BY_MANTISSA,
            _ => code,
        });
        codes.collect::<Vec<u8>>()
    });
    let marked = groups.with_codes(codes.concat());
    marked
        .codes
        .contains(&BY_MANTISSA)
        .then_some((means, marked))
}

/// Returns the most frequent difference for each value of the top mantissa bits, or
/// `None` if these are too rare ([`MIN_SHARE`]).
fn usual(tensors: Tensors, groups: &Groups) -> Option<Means> {
    let changed = || {
        let codes = groups.codes.iter().enumerate();
        codes.filter(|(_, code)| **code != SAME)
    };
    let wanted = (SAMPLE_ELEMENTS / groups.elements).max(1);
    let step = changed().count().div_ceil(wanted).max(1);
    let mut sample: Vec<u64> = Vec::with_capacity(SAMPLE_ELEMENTS);
    for (group, _) in changed().step_by(step) {
        let pairs = pairs(tensors, groups, group).take(SAMPLE_ELEMENTS - sample.len());
        sample.extend(pairs.map(|(predicted, current)| {
            let top = F32::mantissa_top(predicted) as u64;
            top << 32 | u64::from(u32::difference(predicted, current))
        }));
    }
    sample.sort_unstable();
    let mut means = Box::new([0; 64]);
    let mut most = [0; 64];
    for run in sample.chunk_by(|a, b| a == b) {
        let top = (run[0] >> 32) as usize % 64;
        if run.len() > most[top] {
            most[top] = run.len();
            means[top] = u32::truncate(run[0]).unfolded();
        }
    }
    (most.iter().sum::<usize>() * MIN_SHARE >= sample.len().max(1)).then_some(means)
}

/// Returns whether coding the differences of a group relative to the usual ones
/// is expected to cost less than coding them directly. With a scale, the length
/// of a difference is nearly known, so only its bits are counted; without one,
/// the length is counted as well.
fn follows(tensors: Tensors, groups: &Groups, group: usize, means: &Means) -> bool {
    let bits = |value: u32| u64::from(u32::BITS - value.leading_zeros());
    let (mut plain, mut by_mantissa) = (0, 0);
    for (predicted, current) in pairs(tensors, groups, group) {
        let value = u32::difference(predicted, current);
        let mean = means[F32::mantissa_top(predicted)];
        plain += bits(value) + 1;
        by_mantissa += 2 * bits(value.add(mean.wrapping_neg()));
    }
    by_mantissa < plain
}

/// Returns the predicted and the current elements of a group.
fn pairs<'a>(
    tensors: Tensors<'a>,
    groups: &Groups,
    group: usize,
) -> impl Iterator<Item = (u32, u32)> + 'a {
    let start = group * groups.elements * size_of::<u32>();
    let end = start + groups.elements * size_of::<u32>();
    let range = start..end.min(tensors.current.len());
    let predicted = u32::words(&tensors.predicted[range.clone()]);
    predicted.zip(u32::words(&tensors.current[range]))
}
