//! Finds the checkpoints that a model was merged from.

use zstn_core::catalog::FileKind;
use zstn_core::engine::Engine as _;
use zstn_core::frame::Edition;
use zstn_core::sketch::{SizeEstimate, Sketch};

use super::choice::{Candidate, ChosenBase, MIN_SAVING_PERCENT, Search, Target, chain};
use crate::delta::MAX_BASES;
use crate::{Engine, Result};

/// The number of nearest checkpoints among which sources are looked for.
const MOST_COMPARED: usize = 8;

/// If the nearest checkpoint alone leaves less than this percentage, no sources are looked
/// for.
const LEAST_PERCENT: u64 = 2;

/// A candidate, followed by its own bases, and the expected size with it alone.
struct Source<'a> {
    chain: Vec<&'a Candidate>,
    estimate: SizeEstimate,
}

impl Source<'_> {
    fn sketch(&self) -> &Sketch {
        &self.chain[0].sketch
    }
}

impl Search<'_> {
    /// Looks for checkpoints that the target was merged from among the `ranked` candidates,
    /// which begin with the nearest. `plain` is the expected size without a base. Returns
    /// `None` if they are not worth reading, or do not match their sketches.
    ///
    /// # Errors
    /// I/O errors of remote members.
    pub(super) fn merge(
        &self,
        target: &Target,
        ranked: &[(u64, &Candidate, SizeEstimate)],
        candidates: &[Candidate],
        (edition, plain): (Edition, &SizeEstimate),
    ) -> Result<Option<ChosenBase>> {
        let safetensors = FileKind::Safetensors.name();
        let Some((_, _, nearest)) = ranked.first().filter(|_| target.is_of(Some(safetensors)))
        else {
            return Ok(None);
        };
        let least_bytes = plain.packed_bytes.saturating_mul(LEAST_PERCENT);
        if nearest.packed_bytes.saturating_mul(100) < least_bytes {
            return Ok(None);
        }
        let related = ranked.iter().filter_map(|(_, candidate, estimate)| {
            Some(Source {
                chain: chain(candidate, candidates).ok()?,
                estimate: *estimate,
            })
        });
        let related: Vec<_> = related.take(MOST_COMPARED).collect();
        let found = sources(&self.job.engine, &target.sketch, &related, edition);
        let Some((sources, estimate)) = found else {
            return Ok(None);
        };
        for Source { chain, .. } in &sources {
            match self.check(chain, target) {
                Ok(()) => {}
                Err(error) if !chain[0].member.is_local && error.is_external() => {
                    return Err(error);
                }
                // One base is looked for instead.
                Err(_) => return Ok(None),
            }
        }
        let names: Vec<&str> = sources
            .iter()
            .map(|source| &*source.chain[0].member.name)
            .collect();
        let links = sources.iter().flat_map(|source| &source.chain);
        Ok(Some(ChosenBase {
            name: names.join(" and "),
            chain: links.map(|link| link.member.location.clone()).collect(),
            sources: sources.len(),
            estimate,
        }))
    }
}

/// Returns the sources from which a base of `target` is best computed together, and the
/// expected size. `related` begins with the nearest checkpoint. `None` if several sources
/// are not expected to save [`MIN_SAVING_PERCENT`] of the size with the nearest one alone.
fn sources<'s, 'a>(
    engine: &Engine,
    target: &Sketch,
    related: &'s [Source<'a>],
    edition: Edition,
) -> Option<(Vec<&'s Source<'a>>, SizeEstimate)> {
    let nearest = related.first()?;
    let mut chosen = vec![nearest];
    // The sources after each step, and the size with them.
    let mut steps: Vec<(Vec<&Source>, SizeEstimate)> = Vec::new();
    loop {
        let files: usize = chosen.iter().map(|source| source.chain.len()).sum();
        let others = related.iter().filter(|other| {
            let is_chosen = chosen.iter().any(|source| std::ptr::eq(*source, *other));
            !is_chosen && files + other.chain.len() <= MAX_BASES
        });
        let estimates = engine.map(others.collect(), |other: &'s Source<'a>| {
            let all = chosen.iter().copied().chain([other]);
            let sketches: Vec<&Sketch> = all.map(Source::sketch).collect();
            let estimate = target.estimate_delta(&target.mixed(&sketches), edition);
            (other, estimate)
        });
        let best = estimates
            .into_iter()
            .min_by_key(|(_, estimate)| estimate.packed_bytes);
        let Some((other, estimate)) = best else {
            break;
        };
        chosen.push(other);
        steps.push((chosen.clone(), estimate));
    }
    // A source that hardly makes the result smaller is not worth reading.
    let is_as_small = |bytes: u64, limit: u64| {
        bytes.saturating_mul(100) <= limit.saturating_mul(100 + MIN_SAVING_PERCENT)
    };
    let least = steps
        .iter()
        .map(|(_, estimate)| estimate.packed_bytes)
        .min()?;
    let (found, estimate) = steps
        .into_iter()
        .find(|(_, estimate)| is_as_small(estimate.packed_bytes, least))?;
    let is_worth_it = !is_as_small(nearest.estimate.packed_bytes, estimate.packed_bytes);
    is_worth_it.then_some((found, estimate))
}
