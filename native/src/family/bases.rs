//! Chooses bases for many checkpoints at once.

use std::cmp::Reverse;

use zstn_core::engine::Engine as _;
use zstn_core::sketch::Sketch;

use super::MIN_SAVING_PERCENT;
use crate::Engine;

/// The maximum number of bases that a checkpoint is compared with. These are the bases
/// with the most deltas.
const MAX_COMPARED: usize = 64;
/// The maximum number of members of a cluster that are considered as its base, and the
/// maximum number of members that each of them is compared with.
const MAX_CANDIDATES: usize = 8;
const MAX_WITNESSES: usize = 32;

/// A checkpoint that a base is chosen for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Candidate {
    /// The sketch of the checkpoint.
    pub sketch: Sketch,
    /// True if the checkpoint is already packed without a base and must stay so. It may
    /// be the base of other checkpoints.
    pub is_fixed: bool,
}

impl Candidate {
    /// Returns a candidate with this sketch.
    #[must_use]
    pub fn new(sketch: Sketch, is_fixed: bool) -> Self {
        Self { sketch, is_fixed }
    }
}

/// Checkpoints that share a base.
struct Cluster {
    base: usize,
    members: Vec<usize>,
}

/// Chooses a base for each checkpoint among the others, as the index of that base;
/// `None` for checkpoints to be packed without a base. A base has no base itself. A
/// checkpoint gets a base if that is expected to save at least [`MIN_SAVING_PERCENT`].
///
/// The number of comparisons grows with the number of checkpoints times the number of
/// bases, not with the square of the number of checkpoints: each checkpoint is compared
/// with the bases found so far, and founds a cluster if none is good enough. Each
/// cluster then gets the best base among a sample of its members. The choice is
/// deterministic for the same list.
#[must_use]
pub fn bases(engine: &Engine, candidates: &[Candidate], extended: bool) -> Vec<Option<usize>> {
    let work = Work {
        engine,
        candidates,
        plain: candidates
            .iter()
            .map(|candidate| candidate.sketch.estimate_plain().packed_bytes)
            .collect(),
        extended,
    };
    let mut clusters: Vec<Cluster> = Vec::new();
    let (fixed, free): (Vec<usize>, Vec<usize>) =
        (0..candidates.len()).partition(|&number| candidates[number].is_fixed);
    clusters.extend(fixed.into_iter().map(|base| Cluster {
        base,
        members: Vec::new(),
    }));
    for number in free {
        work.add(&mut clusters, number);
    }
    let mut chosen = vec![None; candidates.len()];
    for cluster in clusters {
        let base = work.best_base(&cluster);
        let all = cluster.members.into_iter().chain([cluster.base]);
        let others: Vec<usize> = all.filter(|&number| number != base).collect();
        let lens = work.deltas(&others, base);
        for (number, len) in others.into_iter().zip(lens) {
            if work.is_worth(number, len) {
                chosen[number] = Some(base);
            }
        }
    }
    chosen
}

struct Work<'a> {
    engine: &'a Engine,
    candidates: &'a [Candidate],
    /// The estimated packed size of each checkpoint without a base.
    plain: Vec<u64>,
    extended: bool,
}

impl Work<'_> {
    /// Adds a checkpoint to the cluster with the best base, or starts a cluster with
    /// it.
    fn add(&self, clusters: &mut Vec<Cluster>, number: usize) {
        // Only the bases with the most deltas are compared. Of equally good bases, the
        // first in this order is chosen; the sort is stable, so the choice is
        // deterministic.
        clusters.sort_by_key(|cluster| Reverse(cluster.members.len()));
        let bases: Vec<usize> = clusters.iter().map(|cluster| cluster.base).collect();
        let bases = &bases[..bases.len().min(MAX_COMPARED)];
        let lens = self
            .engine
            .map(bases.to_vec(), |base| self.delta(number, base));
        let best = lens.into_iter().enumerate().min_by_key(|(_, len)| *len);
        match best {
            Some((cluster, len)) if self.is_worth(number, len) => {
                clusters[cluster].members.push(number);
            }
            _ => clusters.push(Cluster {
                base: number,
                members: Vec::new(),
            }),
        }
    }

    /// Returns the member that makes its whole cluster smallest as the base.
    fn best_base(&self, cluster: &Cluster) -> usize {
        if self.candidates[cluster.base].is_fixed || cluster.members.len() < 2 {
            return cluster.base;
        }
        let mut all = vec![cluster.base];
        all.extend(&cluster.members);
        let witnesses = spread(&all, MAX_WITNESSES);
        let mut best = (u64::MAX, cluster.base);
        for candidate in spread(&all, MAX_CANDIDATES) {
            let others: Vec<usize> = witnesses
                .iter()
                .copied()
                .filter(|&witness| witness != candidate)
                .collect();
            let lens = self.deltas(&others, candidate);
            let total = lens
                .into_iter()
                .fold(self.plain[candidate], u64::saturating_add);
            if total < best.0 {
                best = (total, candidate);
            }
        }
        best.1
    }

    fn deltas(&self, numbers: &[usize], base: usize) -> Vec<u64> {
        self.engine
            .map(numbers.to_vec(), |number| self.delta(number, base))
    }

    fn delta(&self, number: usize, base: usize) -> u64 {
        let base = &self.candidates[base].sketch;
        let sketch = &self.candidates[number].sketch;
        sketch.estimate_delta(base, self.extended).packed_bytes
    }

    fn is_worth(&self, number: usize, len: u64) -> bool {
        let limit = self.plain[number].saturating_mul(100 - MIN_SAVING_PERCENT);
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
            let [.., high] = state.to_le_bytes();
            let changed = step > 0 && number % step == offset;
            (0x3f00 | (u16::from(high) ^ u16::from(changed))).to_le_bytes()
        });
        let bytes: Vec<u8> = words.collect();
        let ranges = runs(Dtype::Bf16, 2 * ELEMENTS).into_iter();
        let samples = ranges
            .flat_map(|range| part(&bytes, range).to_vec())
            .collect();
        let tensor = SketchedTensor::new("w".into(), Dtype::Bf16, vec![ELEMENTS], None, samples);
        Sketch::new(2 * ELEMENTS, None, vec![tensor.unwrap()]).unwrap()
    }

    fn choose(sketches: Vec<(Sketch, bool)>) -> Vec<Option<usize>> {
        let candidates: Vec<Candidate> = sketches
            .into_iter()
            .map(|(sketch, is_fixed)| Candidate::new(sketch, is_fixed))
            .collect();
        bases(&Engine::default(), &candidates, false)
    }

    #[test]
    fn each_family_has_the_base_that_suits_it_best() {
        // The original is neither the first nor the last checkpoint; each fine-tune
        // differs from other fine-tunes in twice as many weights as from the original.
        let tuned = |seed, offset| (sketch(seed, 10, offset), false);
        let chosen = choose(vec![
            tuned(1, 0),
            tuned(2, 0),
            tuned(1, 3),
            (sketch(1, 0, 0), false),
            (sketch(3, 0, 0), false),
            (sketch(2, 0, 0), false),
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
            (sketch(1, 0, 0), false),
            (sketch(1, 10, 0), true),
            (sketch(1, 10, 3), true),
            (sketch(2, 10, 3), true),
        ]);
        assert_eq!(chosen[1..], [None, None, None]);
        assert!(matches!(chosen[0], Some(1 | 2)), "{chosen:?}");
        assert_eq!(choose(Vec::new()), []);
    }
}
