//! Outliers: values too far from their component's mean for a residual to
//! encode.
//!
//! The Python encoder clips them, which makes the error unbounded
//! (docs/formats/gauss.md 12). This one assigns them to the component with the
//! nearest mean, and adds components for values that are far from all means.

use alloc::vec::Vec;

use super::value::round_even;
use crate::entropy::ans::MAX_RESIDUAL;
use crate::transform::gmm::{MIN_DEVIATION, Mixture};

/// The largest number of components in a shard record.
const MAX_COMPONENTS: usize = 255;

/// Returns the residual of `value` in the component with this `mean`, or `None`
/// if it is too far away.
pub fn residual(value: f64, mean: f64, scale: f64) -> Option<i32> {
    let steps = (value - mean) * scale;
    if steps.abs() > f64::from(MAX_RESIDUAL) {
        return None;
    }
    #[allow(clippy::cast_possible_truncation)] // within 16 bits
    Some(round_even(steps) as i32)
}

/// Makes every value encodable and returns the number of components added, or
/// `None` if the shard cannot have that many.
pub fn cover_outliers(
    mixture: &mut Mixture,
    values: &[f64],
    components: &mut [u8],
    scale: f64,
) -> Option<u32> {
    let reaches = |mixture: &Mixture, value: f64, component: u8| {
        residual(value, mixture.means[usize::from(component)], scale).is_some()
    };
    let mut far = Vec::new();
    for (&value, component) in values.iter().zip(components.iter_mut()) {
        if reaches(mixture, value, *component) {
            continue;
        }
        let nearest = nearest(mixture, value);
        if reaches(mixture, value, nearest) {
            *component = nearest;
        } else {
            far.push(value);
        }
    }
    if far.is_empty() {
        return Some(0);
    }
    let before = mixture.len();
    far.sort_unstable_by(f64::total_cmp);
    let mut left = far.as_slice();
    while let Some(&first) = left.first() {
        let last = first + f64::from(2 * MAX_RESIDUAL - 2) / scale;
        let (members, rest) = left.split_at(left.partition_point(|value| *value <= last));
        // The first value may be so far from 0 that adding to it changes
        // nothing. It then gets a component of its own.
        let (members, rest) = if members.is_empty() {
            left.split_at(1)
        } else {
            (members, rest)
        };
        if mixture.len() == MAX_COMPONENTS {
            return None;
        }
        add(mixture, members, values.len());
        left = rest;
    }
    for (&value, component) in values.iter().zip(components.iter_mut()) {
        if !reaches(mixture, value, *component) {
            *component = nearest(mixture, value);
            if !reaches(mixture, value, *component) {
                return None;
            }
        }
    }
    u32::try_from(mixture.len() - before).ok()
}

fn nearest(mixture: &Mixture, value: f64) -> u8 {
    let distance = |mean: &f64| (value - mean).abs();
    let means = (0..=u8::MAX).zip(&mixture.means);
    means
        .min_by(|a, b| distance(a.1).total_cmp(&distance(b.1)))
        .map_or(0, |(number, _)| number)
}

/// Adds a component in the middle of `members`, which must be sorted.
fn add(mixture: &mut Mixture, members: &[f64], all: usize) {
    let (Some(first), Some(last)) = (members.first(), members.last()) else {
        return;
    };
    let mean = first + (last - first) / 2.0;
    #[allow(clippy::cast_precision_loss)] // far below 2^53
    let (count, all) = (members.len() as f64, all as f64);
    let squares: f64 = members.iter().map(|m| (m - mean) * (m - mean)).sum();
    mixture.weights.push(count / all);
    mixture.means.push(mean);
    mixture
        .deviations
        .push(libm::sqrt(squares / count).max(MIN_DEVIATION));
}
