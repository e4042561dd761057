//! Finds groups whose changes depend on the mantissa (docs/formats/zxd1.md 12).
//!
//! Weight decay reduces every weight of a row without gradient by the same
//! fraction. In units of the element's last place, that reduction is
//! proportional to the significand, which varies by a factor of two, and is
//! rounded. It is therefore nearly equal for all elements whose mantissas begin
//! with the same six bits.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::Tensors;
use super::groups::{Groups, JOB_ELEMENTS};
use crate::engine::Engine;
use crate::float::FloatType;
use crate::frame::difference::context::{BY_MANTISSA, SAME};
use crate::frame::difference::element::{F32, Float as _, Word as _};
use crate::frame::difference::head::Means;

/// The maximum number of elements that are examined to find the usual
/// difference of each mantissa.
const SAMPLE_ELEMENTS: usize = 1 << 17;
/// There are usual differences if at least one in this many sampled elements
/// has the most frequent difference of its mantissa.
const MIN_SHARE: usize = 100;

/// Returns the usual differences, and the groups with [`BY_MANTISSA`] as the
/// code of those that follow them. Returns `None` if there are none, or if the
/// elements are not 32 bits wide.
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

/// Returns the most frequent difference for each value of the top mantissa
/// bits.
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
