//! Chooses bases for many checkpoints at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zstn_core::engine::Engine as _;
use zstn_core::frame::Edition;
use zstn_core::sketch::{Signature, SizeEstimate, Sketch};

use super::MIN_SAVING_PERCENT;
use super::index::SignatureIndex;
use crate::{Engine, Result};

/// The maximum number of bases that a checkpoint is compared with: those with the most
/// similar signatures.
const MAX_COMPARED: usize = 8;
/// The maximum number of members of a cluster that are considered as its base, and the
/// maximum number of members that each of them is compared with.
const MAX_CANDIDATES: usize = 8;
const MAX_WITNESSES: usize = 32;
/// The number of sketches that are kept in memory, besides those in use.
const KEPT_SKETCHES: usize = 64;

/// A checkpoint that a base is chosen for. It takes about half a kilobyte.
#[derive(Debug, Clone)]
pub struct Candidate {
    pub(super) signature: Signature,
    /// The estimated packed size without a base.
    pub(super) plain: SizeEstimate,
    /// The number of files in which it is already planned to be packed.
    planned_files: Option<usize>,
}

impl Candidate {
    /// Returns the candidate with this sketch.
    #[must_use]
    pub fn new(sketch: &Sketch) -> Self {
        Self {
            signature: sketch.signature(),
            plain: sketch.estimate_plain(),
            planned_files: None,
        }
    }

    /// States that the checkpoint is already packed, or planned to be, and gets no other
    /// bases. `files` is the number of packed files that it is read from: 1 for a
    /// container, which may be the base of other checkpoints, and more for a delta. Both may
    /// be sources of merges.
    #[must_use]
    pub fn planned(mut self, files: usize) -> Self {
        self.planned_files = Some(files);
        self
    }

    pub(super) fn is_planned(&self) -> bool {
        self.planned_files.is_some()
    }

    /// Returns the largest number of packed files that the checkpoint may be read from. It
    /// has no base if it `is_alone` in its cluster.
    pub(super) fn most_files(&self, is_alone: bool) -> usize {
        self.planned_files.unwrap_or(if is_alone { 1 } else { 2 })
    }
}

/// Numbers of checkpoints that share a base. The first one has founded the cluster; it is
/// the container if one of them is planned.
pub(super) type Cluster = Vec<usize>;

/// Chooses bases for each checkpoint among the others, as the indices of those bases: none
/// for checkpoints to be packed without a base, one, or the several sources of a merge.
/// A single base has no base itself; sources have at most one each, and are no merges.
/// A checkpoint gets a base if that is expected to save at least [`MIN_SAVING_PERCENT`].
/// `sketch` returns the sketch of the candidate with a number; about a hundred sketches
/// are in memory at a time, at most.
///
/// Each checkpoint is compared with the bases found so far that have the most similar
/// signatures, and founds a cluster if none is good enough. Sources of merges are then
/// looked for in the nearest clusters, as [`choose`](super::choose()) does in a folder, but
/// chosen only if they save half of the size with the nearest of them. Each cluster finally
/// gets the best base among a sample of its other members. The choice is deterministic for
/// the same list.
///
/// # Errors
/// The errors of `sketch`.
pub fn bases(
    engine: &Engine,
    candidates: &[Candidate],
    sketch: impl Fn(usize) -> Result<Sketch> + Sync,
    extended: bool,
) -> Result<Vec<Vec<usize>>> {
    let work = Work {
        engine,
        candidates,
        sketch,
        kept: Mutex::default(),
        edition: match extended {
            true => Edition::Paired,
            false => Edition::Plain,
        },
    };
    let mut clusters = Clusters::default();
    let (planned, free): (Vec<usize>, Vec<usize>) =
        (0..candidates.len()).partition(|&number| candidates[number].is_planned());
    let (containers, deltas): (Vec<usize>, Vec<usize>) = planned
        .into_iter()
        .partition(|&number| candidates[number].most_files(true) == 1);
    for number in containers {
        clusters.found(number, &candidates[number]);
    }
    for number in deltas {
        // Without a similar container it cannot be found as a source.
        if let Some(&cluster) = clusters.nearest(&candidates[number]).first() {
            clusters.all[cluster].push(number);
        }
    }
    for number in free {
        work.add(&mut clusters, number)?;
    }
    let mut chosen = work.merges(&clusters)?;
    for mut cluster in clusters.all {
        cluster.retain(|&number| chosen[number].is_empty());
        let Some(base) = work.best_base(&cluster)? else {
            continue;
        };
        cluster.retain(|&number| number != base && !candidates[number].is_planned());
        let lens = work.deltas(&cluster, base)?;
        for (number, len) in cluster.into_iter().zip(lens) {
            if work.is_worth(number, len) {
                chosen[number] = vec![base];
            }
        }
    }
    Ok(chosen)
}

/// All clusters, and an index of the signatures of their founders.
#[derive(Default)]
pub(super) struct Clusters {
    pub(super) all: Vec<Cluster>,
    index: SignatureIndex,
}

impl Clusters {
    /// Starts a cluster with this checkpoint.
    fn found(&mut self, founder: usize, candidate: &Candidate) {
        // Plans have fewer rows than u32 has numbers; one that had more would only lack
        // these bases.
        if let Ok(number) = u32::try_from(self.all.len()) {
            self.index.add(number, &candidate.signature);
        }
        self.all.push(vec![founder]);
    }

    /// Returns the numbers of the clusters whose founders are most similar.
    pub(super) fn nearest(&self, candidate: &Candidate) -> Vec<usize> {
        let nearest = self.index.nearest(&candidate.signature, MAX_COMPARED);
        nearest.into_iter().map(|number| number as usize).collect()
    }
}

pub(super) struct Work<'a, S> {
    pub(super) engine: &'a Engine,
    pub(super) candidates: &'a [Candidate],
    sketch: S,
    /// The sketches used last.
    kept: Mutex<VecDeque<(usize, Arc<Sketch>)>>,
    pub(super) edition: Edition,
}

impl<S: Fn(usize) -> Result<Sketch> + Sync> Work<'_, S> {
    /// Adds a checkpoint to the cluster whose founder is its best base. Without one, the
    /// checkpoint founds a cluster.
    fn add(&self, clusters: &mut Clusters, number: usize) -> Result<()> {
        let candidate = &self.candidates[number];
        let nearest = clusters.nearest(candidate);
        let own = match nearest.is_empty() {
            true => None,
            false => Some(self.sketch(number)?),
        };
        let lens = self.engine.map(nearest.clone(), |cluster| {
            let base = self.sketch(clusters.all[cluster][0])?;
            Ok(own.as_ref().map(|own| self.delta(own, &base)))
        });
        let lens: Vec<Option<u64>> = lens.into_iter().collect::<Result<_>>()?;
        let lens = nearest.into_iter().zip(lens.into_iter().flatten());
        match lens.min_by_key(|(cluster, len)| (*len, *cluster)) {
            Some((cluster, len)) if self.is_worth(number, len) => {
                clusters.all[cluster].push(number);
            }
            _ => clusters.found(number, candidate),
        }
        Ok(())
    }

    /// Returns the member that makes its whole cluster smallest as the base; `None` without
    /// members.
    fn best_base(&self, cluster: &[usize]) -> Result<Option<usize>> {
        let Some(&first) = cluster.first() else {
            return Ok(None);
        };
        if self.candidates[first].is_planned() || cluster.len() < 3 {
            return Ok(Some(first));
        }
        let witnesses = spread(cluster, MAX_WITNESSES);
        let mut best = (u64::MAX, first);
        for candidate in spread(cluster, MAX_CANDIDATES) {
            let others: Vec<usize> = witnesses
                .iter()
                .copied()
                .filter(|&witness| witness != candidate)
                .collect();
            let lens = self.deltas(&others, candidate)?;
            let total = lens.into_iter().fold(
                self.candidates[candidate].plain.packed_bytes,
                u64::saturating_add,
            );
            if total < best.0 {
                best = (total, candidate);
            }
        }
        Ok(Some(best.1))
    }

    fn deltas(&self, numbers: &[usize], base: usize) -> Result<Vec<u64>> {
        if numbers.is_empty() {
            return Ok(Vec::new());
        }
        let base = self.sketch(base)?;
        let lens = self.engine.map(numbers.to_vec(), |number| {
            let own = self.sketch(number)?;
            Ok(self.delta(&own, &base))
        });
        lens.into_iter().collect()
    }

    fn delta(&self, own: &Sketch, base: &Sketch) -> u64 {
        own.estimate_file_delta(base, self.edition).packed_bytes
    }

    /// Returns the sketch of a candidate, and keeps it for a while.
    pub(super) fn sketch(&self, number: usize) -> Result<Arc<Sketch>> {
        let mut kept = self.kept();
        let at = kept.iter().position(|(other, _)| *other == number);
        if let Some(entry) = at.and_then(|at| kept.remove(at)) {
            kept.push_back(entry.clone());
            return Ok(entry.1);
        }
        drop(kept);
        let sketch = Arc::new((self.sketch)(number)?);
        let mut kept = self.kept();
        kept.push_back((number, sketch.clone()));
        if kept.len() > KEPT_SKETCHES {
            kept.pop_front();
        }
        Ok(sketch)
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<(usize, Arc<Sketch>)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_worth(&self, number: usize, len: u64) -> bool {
        let plain = self.candidates[number].plain.packed_bytes;
        let limit = plain.saturating_mul(100 - MIN_SAVING_PERCENT);
        len.saturating_mul(100) <= limit
    }
}

/// Returns at most `count` of the numbers: the first one, and others at even distances.
fn spread(numbers: &[usize], count: usize) -> Vec<usize> {
    let len = numbers.len();
    let count = count.min(len);
    (0..count).map(|part| numbers[part * len / count]).collect()
}

#[cfg(test)]
mod tests {
    use zstn_core::bytes::part;
    use zstn_core::dtype::Dtype;
    use zstn_core::sketch::{SketchedTensor, runs};

    use super::*;

    const ELEMENTS: u64 = 4000;

    /// Returns BF16 weights generated from `seed`; every `step`th has another last bit.
    fn sketch(seed: u64, step: u64, offset: u64) -> Sketch {
        let mut state = seed;
        let words = (0..ELEMENTS).flat_map(|number| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let [.., low, high] = state.to_le_bytes();
            let changed = step > 0 && number % step == offset;
            let word = 0x3e00 + 2 * u16::from(high) + u16::from(low & 1);
            (word ^ u16::from(changed)).to_le_bytes()
        });
        let bytes: Vec<u8> = words.collect();
        let ranges = runs(Dtype::Bf16, 2 * ELEMENTS).into_iter();
        let samples = ranges
            .flat_map(|range| part(&bytes, range).to_vec())
            .collect();
        let tensor = SketchedTensor::new("w".into(), Dtype::Bf16, vec![ELEMENTS], None, samples);
        Sketch::new(2 * ELEMENTS, None, vec![tensor.unwrap()]).unwrap()
    }

    /// Chooses single bases. Each checkpoint has the number of packed files in which it is
    /// planned, or 0.
    fn choose(sketches: Vec<(Sketch, usize)>) -> Vec<Option<usize>> {
        let candidates: Vec<Candidate> = sketches
            .iter()
            .map(|(sketch, files)| match files {
                0 => Candidate::new(sketch),
                files => Candidate::new(sketch).planned(*files),
            })
            .collect();
        let sketch = |number: usize| Ok(sketches[number].0.clone());
        let chosen = bases(&Engine::default(), &candidates, sketch, false).unwrap();
        assert!(chosen.iter().all(|bases| bases.len() <= 1));
        chosen.iter().map(|bases| bases.first().copied()).collect()
    }

    #[test]
    fn each_family_has_the_base_that_suits_it_best() {
        // The original is neither the first nor the last checkpoint; each fine-tune
        // differs from other fine-tunes in twice as many weights as from the original.
        let tuned = |seed, offset| (sketch(seed, 10, offset), 0);
        let chosen = choose(vec![
            tuned(1, 0),
            tuned(2, 0),
            tuned(1, 3),
            (sketch(1, 0, 0), 0),
            (sketch(3, 0, 0), 0),
            (sketch(2, 0, 0), 0),
            tuned(1, 5),
            tuned(2, 7),
        ]);
        let expected = [
            Some(3),
            Some(5),
            Some(3),
            None,
            None,
            None,
            Some(3),
            Some(5),
        ];
        assert_eq!(chosen, expected);
    }

    #[test]
    fn what_is_fixed_has_no_base_and_stays_one() {
        let chosen = choose(vec![
            (sketch(1, 0, 0), 0),
            (sketch(1, 10, 0), 1),
            (sketch(1, 10, 3), 1),
            (sketch(2, 10, 3), 1),
        ]);
        assert_eq!(chosen[1..], [None, None, None]);
        assert!(matches!(chosen[0], Some(1 | 2)), "{chosen:?}");
        assert_eq!(choose(Vec::new()), []);
    }

    #[test]
    fn small_families_are_found_among_many_large_ones() {
        // A hundred families of three come before the two members of another one.
        let crowd = (10..110).flat_map(|seed| (0..3).map(move |offset| sketch(seed, 10, offset)));
        let pair = [sketch(1, 0, 0), sketch(1, 10, 0)];
        let chosen = choose(crowd.chain(pair).map(|sketch| (sketch, 0)).collect());
        assert!(chosen[300..].iter().flatten().all(|&base| base >= 300));
        assert_eq!(chosen[300..].iter().flatten().count(), 1);
        assert_eq!(chosen.iter().flatten().count(), 201);
    }

    #[test]
    fn an_unreadable_sketch_is_an_error() {
        let sketches = [sketch(1, 0, 0), sketch(1, 10, 0)];
        let candidates = sketches.each_ref().map(Candidate::new);
        let lost = |_: usize| Err(crate::Error::Usage("lost".into()));
        assert!(bases(&Engine::default(), &candidates, lost, false).is_err());
    }
}
