//! Finds the checkpoints that a model was merged or assembled from.

use zstn_core::engine::Engine as _;
use zstn_core::frame::Edition;
use zstn_core::sketch::{SizeEstimate, Sketch};

use super::chain::{Candidate, chain};
use super::choice::{ChosenBase, MIN_SAVING_PERCENT, Search};
use super::target::Target;
use crate::delta::MAX_BASES;
use crate::{Engine, Result};

/// The number of nearest checkpoints that are tried as sources.
pub(super) const MOST_COMPARED: usize = 32;

/// The number of the best second sources that are tried as further sources.
const MOST_COMBINED: usize = 8;

/// If the nearest checkpoint alone leaves less than this percentage, no sources are looked
/// for. A checkpoint that saves less on its own is not used as a source.
const LEAST_PERCENT: u64 = 2;

/// A checkpoint that may be a source, and the expected size with it alone.
pub(super) struct Source<'a, T> {
    /// The checkpoint, in the terms of the caller.
    pub(super) checkpoint: T,
    pub(super) estimate: SizeEstimate,
    sketch: &'a Sketch,
    /// The number of files that reading the checkpoint takes: its own and its bases.
    files: usize,
}

impl Search<'_> {
    /// Looks for checkpoints among the `candidates` from which the target was merged or
    /// assembled. `plain` is the expected size without a base, and `nearest` the one with
    /// the nearest base alone. Returns `None` if they are not worth reading, or do not match
    /// their sketches.
    ///
    /// # Errors
    /// I/O errors of remote members.
    pub(super) fn merge(
        &self,
        target: &Target,
        candidates: &[Candidate],
        edition: Edition,
        (plain, nearest): (&SizeEstimate, &SizeEstimate),
    ) -> Result<Option<ChosenBase>> {
        if is_small(nearest, plain) || !target.is_safetensors() {
            return Ok(None);
        }
        let engine = &self.job.engine;
        let search = Combining {
            engine,
            target: &target.sketch,
            edition,
        };
        let chains = engine.map(candidates.iter().collect(), |candidate| {
            let chain = chain(candidate, candidates).ok()?;
            let files = chain.len();
            Some((chain, &candidate.sketch, files))
        });
        let related = search.related(chains.into_iter().flatten().collect(), plain);
        let Some((sources, estimate)) = search.sources(&related, nearest) else {
            return Ok(None);
        };
        let chains: Vec<_> = sources.iter().map(|source| &source.checkpoint).collect();
        for chain in &chains {
            match self.check(chain, target) {
                Ok(()) => {}
                Err(error) if !chain[0].member.is_local && error.is_external() => {
                    return Err(error);
                }
                // One base is looked for instead.
                Err(_) => return Ok(None),
            }
        }
        let names: Vec<&str> = chains.iter().map(|chain| &*chain[0].member.name).collect();
        let links = chains.iter().copied().flatten();
        Ok(Some(ChosenBase {
            name: names.join(" and "),
            chain: links.map(|link| link.member.location.clone()).collect(),
            sources: sources.len(),
            estimate,
        }))
    }
}

/// Returns whether a base that leaves `nearest` of the size `plain` saves so much that
/// several sources are not worth a search.
pub(super) fn is_small(nearest: &SizeEstimate, plain: &SizeEstimate) -> bool {
    let least_bytes = plain.packed_bytes.saturating_mul(LEAST_PERCENT);
    nearest.packed_bytes.saturating_mul(100) < least_bytes
}

/// The search for the sources of a base that is computed for `target`.
pub(super) struct Combining<'a> {
    pub(super) engine: &'a Engine,
    pub(super) target: &'a Sketch,
    pub(super) edition: Edition,
}

impl Combining<'_> {
    /// Returns the expected size with a base that is computed from `sources`.
    fn estimate(&self, sources: &[&Sketch]) -> SizeEstimate {
        self.target
            .estimate_delta(&self.target.mixed(sources), self.edition)
    }

    /// Returns the `candidates` that can be sources, the nearest one first. Each candidate
    /// is a checkpoint, its sketch, and the number of files that reading it takes.
    pub(super) fn related<'a, T: Send>(
        &self,
        candidates: Vec<(T, &'a Sketch, usize)>,
        plain: &SizeEstimate,
    ) -> Vec<Source<'a, T>> {
        let limit = plain.packed_bytes.saturating_mul(100 - LEAST_PERCENT);
        let related = self
            .engine
            .map(candidates, |(checkpoint, sketch, files)| Source {
                checkpoint,
                estimate: self.estimate(&[sketch]),
                sketch,
                files,
            });
        let mut related: Vec<Source<T>> = related
            .into_iter()
            .filter(|source| source.estimate.packed_bytes.saturating_mul(100) <= limit)
            // Another source needs a file too.
            .filter(|source| source.files < MAX_BASES)
            .collect();
        // The sort is stable, so equally good candidates stay sorted by name.
        related.sort_by_key(|source| (source.estimate.packed_bytes, source.files));
        related.truncate(MOST_COMPARED);
        related
    }

    /// Returns the `related` sources from which a base of the target is best computed
    /// together, and the expected size. `None` if several sources are not expected to save
    /// [`MIN_SAVING_PERCENT`] of the size with the `nearest` base alone.
    pub(super) fn sources<'s, 'a, T: Sync>(
        &self,
        related: &'s [Source<'a, T>],
        nearest: &SizeEstimate,
    ) -> Option<(Vec<&'s Source<'a, T>>, SizeEstimate)> {
        let mut chosen = vec![related.first()?];
        let mut others: Vec<&Source<T>> = related.iter().skip(1).collect();
        // The sources after each step, and the size with them.
        let mut steps: Vec<(Vec<&Source<T>>, SizeEstimate)> = Vec::new();
        loop {
            let files: usize = chosen.iter().map(|source| source.files).sum();
            others.retain(|other| files + other.files <= MAX_BASES);
            let mut estimates = self.engine.map(others, |other: &'s Source<'a, T>| {
                let all = chosen.iter().copied().chain([other]);
                let sketches: Vec<&Sketch> = all.map(|source| source.sketch).collect();
                (other, self.estimate(&sketches))
            });
            estimates.sort_by_key(|(_, estimate)| estimate.packed_bytes);
            estimates.truncate(MOST_COMBINED);
            let mut best_first = estimates.into_iter();
            let Some((best, estimate)) = best_first.next() else {
                break;
            };
            chosen.push(best);
            steps.push((chosen.clone(), estimate));
            others = best_first.map(|(other, _)| other).collect();
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
        let is_worth_it = !is_as_small(nearest.packed_bytes, estimate.packed_bytes);
        is_worth_it.then_some((found, estimate))
    }
}
