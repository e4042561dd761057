//! Finds the checkpoints that a model was merged from.

use zstn_core::engine::Engine as _;
use zstn_core::frame::Edition;
use zstn_core::sketch::{SizeEstimate, Sketch};

use crate::Engine;

/// The number of nearest checkpoints among which sources are looked for.
const MOST_COMPARED: usize = 8;

/// If the nearest checkpoint alone leaves less than this percentage, no sources are looked
/// for.
const LEAST_PERCENT: u64 = 2;

/// A candidate with its sketch, and the number of files that are read with it.
pub(super) struct Source<'a, T> {
    pub(super) candidate: &'a T,
    pub(super) sketch: &'a Sketch,
    pub(super) files: usize,
    pub(super) estimate: SizeEstimate,
}

/// Returns the sources from which a base of `target` is best computed together, and the
/// expected size. `related` begins with the nearest checkpoint. `None` if several sources
/// are not expected to save `saving_percent` of the size with the nearest one alone. The
/// sources have at most `most_files`.
pub(super) fn sources<'a, T: Sync>(
    engine: &Engine,
    target: &Sketch,
    related: &[Source<'a, T>],
    (edition, saving_percent): (Edition, u64),
    most_files: usize,
) -> Option<(Vec<&'a T>, SizeEstimate)> {
    let related = &related[..related.len().min(MOST_COMPARED)];
    let nearest = related.first()?.estimate.packed_bytes;
    let plain = target.estimate_plain().packed_bytes;
    if nearest.saturating_mul(100) < plain.saturating_mul(LEAST_PERCENT) {
        return None;
    }
    let mut chosen = vec![0];
    // The sources after each step, and the size with them.
    let mut steps: Vec<(Vec<usize>, SizeEstimate)> = Vec::new();
    loop {
        let files: usize = chosen.iter().map(|number| related[*number].files).sum();
        let others = (0..related.len()).filter(|number| {
            !chosen.contains(number) && files + related[*number].files <= most_files
        });
        let estimates = engine.map(others.collect(), |number: usize| {
            let all = chosen.iter().chain([&number]);
            let sketches: Vec<&Sketch> = all.map(|source| related[*source].sketch).collect();
            let estimate = target.estimate_delta(&target.mixed(&sketches), edition);
            (number, estimate)
        });
        let best = estimates
            .into_iter()
            .min_by_key(|(_, estimate)| estimate.packed_bytes);
        let Some((number, estimate)) = best else {
            break;
        };
        chosen.push(number);
        steps.push((chosen.clone(), estimate));
    }
    // A source that hardly makes the result smaller is not worth reading.
    let is_as_small = |bytes: u64, limit: u64| {
        bytes.saturating_mul(100) <= limit.saturating_mul(100 + saving_percent)
    };
    let least = steps
        .iter()
        .map(|(_, estimate)| estimate.packed_bytes)
        .min()?;
    let (numbers, estimate) = steps
        .into_iter()
        .find(|(_, estimate)| is_as_small(estimate.packed_bytes, least))?;
    if is_as_small(nearest, estimate.packed_bytes) {
        return None;
    }
    let found = numbers.iter().map(|number| related[*number].candidate);
    Some((found.collect(), estimate))
}
