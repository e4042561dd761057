//! Finds the checkpoints that were merged or assembled from other ones.

use std::cmp::Reverse;
use std::sync::Arc;

use zstn_core::engine::Engine as _;
use zstn_core::sketch::{Signature, SizeEstimate, Sketch, SketchedTensor};

use super::bases::{Clusters, Work};
use super::merge::{Combining, MOST_COMPARED, is_small};
use crate::Result;

/// The number of nearest checkpoints that are tried as the first source. Other merges of the
/// same sources, and the common base of the sources, may be nearer than the sources.
const MOST_STARTS: usize = 3;

/// The number of nearest checkpoints that are combined with each first source after the
/// nearest one.
const MOST_NEAREST: usize = 8;

/// The number of members of a cluster whose signatures are compared with that of a merge.
const MOST_SCANNED: usize = 256;

/// The number of tensors of a checkpoint that are combined first.
const MOST_TENSORS: usize = 4;

/// The minimum saving compared with the nearest source alone, in percent. Less than that may
/// be an accident of a few samples, and a model that lies between its fine-tunes is of more
/// use as their base.
const MIN_MERGE_SAVING_PERCENT: u64 = 50;

/// A checkpoint that is expected to be much smaller with several sources than with one base.
struct Merge {
    number: usize,
    sources: Vec<usize>,
    /// The expected saving compared with the nearest source alone.
    saved_bytes: u64,
}

/// The result of a search for the sources of one checkpoint.
enum Found {
    Nothing,
    /// The nearest checkpoint alone leaves so little that no sources were looked for.
    IsSmall,
    /// The sources, and the expected saving compared with the nearest one alone.
    Sources(Vec<usize>, u64),
}

impl<S: Fn(usize) -> Result<Sketch> + Sync> Work<'_, S> {
    /// Returns the sources of each checkpoint that was merged or assembled from others, and
    /// none for all others.
    ///
    /// If one model is the mean of two others, each of these can be computed from the mean
    /// and the other one too, though less exactly. The merge that saves most therefore
    /// decides first; its sources are not merges, and it is no source itself.
    pub(super) fn merges(&self, clusters: &Clusters) -> Result<Vec<Vec<usize>>> {
        let mut cluster_of = vec![0; self.candidates.len()];
        for (place, cluster) in clusters.all.iter().enumerate() {
            for &number in cluster {
                cluster_of[number] = place;
            }
        }
        let mut found = Vec::new();
        // Members of a cluster have sources in common, so few sketches are read twice.
        for number in clusters.all.iter().flatten().copied() {
            if !self.candidates[number].is_planned() {
                found.extend(self.merge(clusters, &cluster_of, number)?);
            }
        }
        found.sort_by_key(|merge| (Reverse(merge.saved_bytes), merge.number));
        let mut chosen = vec![Vec::new(); self.candidates.len()];
        let mut is_source = vec![false; self.candidates.len()];
        for merge in found {
            let mut sources = merge.sources.iter();
            if !is_source[merge.number] && sources.all(|&source| chosen[source].is_empty()) {
                for &source in &merge.sources {
                    is_source[source] = true;
                }
                chosen[merge.number] = merge.sources;
            }
        }
        Ok(chosen)
    }

    /// Looks for the sources of one checkpoint.
    fn merge(
        &self,
        clusters: &Clusters,
        cluster_of: &[usize],
        number: usize,
    ) -> Result<Option<Merge>> {
        let others = self.nearest(clusters, cluster_of[number], number);
        if others.len() < 2 {
            return Ok(None);
        }
        let target = self.sketch(number)?;
        let sketches = self.engine.map(others.clone(), |other| self.sketch(other));
        let sketches: Vec<Arc<Sketch>> = sketches.into_iter().collect::<Result<_>>()?;
        let candidates = others.into_iter().zip(&sketches).map(|(other, sketch)| {
            let is_alone = clusters.all[cluster_of[other]].len() == 1;
            let files = self.candidates[other].most_files(is_alone);
            (other, &**sketch, files)
        });
        let candidates: Vec<(usize, &Sketch, usize)> = candidates.collect();
        // Most checkpoints are not merges, and their largest tensors suffice to see that.
        if target.tensors().len() > MOST_TENSORS {
            let largest = largest_tensors(&target)?;
            let plain = largest.estimate_plain();
            if let Found::Nothing = self.combined(&largest, &plain, candidates.clone()) {
                return Ok(None);
            }
        }
        let plain = &self.candidates[number].plain;
        Ok(match self.combined(&target, plain, candidates) {
            Found::Sources(sources, saved_bytes) => Some(Merge {
                number,
                sources,
                saved_bytes,
            }),
            Found::Nothing | Found::IsSmall => None,
        })
    }

    /// Looks for the best sources among checkpoints, each with its sketch and the number of
    /// files that reading it takes.
    fn combined(
        &self,
        target: &Sketch,
        plain: &SizeEstimate,
        candidates: Vec<(usize, &Sketch, usize)>,
    ) -> Found {
        let search = Combining {
            engine: self.engine,
            target,
            edition: self.edition,
        };
        let related = search.related(candidates, plain);
        let Some(nearest) = related.first().map(|source| &source.estimate) else {
            return Found::Nothing;
        };
        if is_small(nearest, plain) {
            return Found::IsSmall;
        }
        let mut best = Found::Nothing;
        let mut least_bytes = nearest
            .packed_bytes
            .saturating_mul(MIN_MERGE_SAVING_PERCENT)
            .div_ceil(100);
        for start in 0..MOST_STARTS {
            let end = match start {
                0 => related.len(),
                _ => related.len().min(MOST_NEAREST),
            };
            let considered = related.get(start..end).unwrap_or_default();
            let Some((sources, estimate)) = search.sources(considered, nearest) else {
                continue;
            };
            let saved_bytes = nearest.packed_bytes.saturating_sub(estimate.packed_bytes);
            if saved_bytes >= least_bytes {
                least_bytes = saved_bytes + 1;
                let sources = sources.iter().map(|source| source.checkpoint).collect();
                best = Found::Sources(sources, saved_bytes);
            }
        }
        best
    }

    /// Returns the checkpoints that a merge is looked for in: the founders of the nearest
    /// clusters, and the members with the most similar signatures. Of a large cluster, only some
    /// evenly spread members are compared.
    fn nearest(&self, clusters: &Clusters, own: usize, number: usize) -> Vec<usize> {
        let signature = &self.candidates[number].signature;
        let mut places = clusters.nearest(&self.candidates[number]);
        if !places.contains(&own) {
            places.push(own);
        }
        let mut found = Vec::new();
        for cluster in places.into_iter().map(|place| &clusters.all[place]) {
            let step = cluster.len().div_ceil(MOST_SCANNED).max(1);
            for (place, &other) in cluster.iter().enumerate().step_by(step) {
                let shared = common_hashes(signature, &self.candidates[other].signature);
                found.push((place != 0, Reverse(shared), other));
            }
        }
        found.retain(|(.., other)| *other != number);
        found.sort_unstable();
        found.truncate(MOST_COMPARED);
        found.into_iter().map(|(.., other)| other).collect()
    }
}

/// Returns the sketch of the largest tensors of a checkpoint alone.
fn largest_tensors(sketch: &Sketch) -> Result<Sketch> {
    let mut tensors: Vec<SketchedTensor> = sketch.tensors().to_vec();
    tensors.sort_by_key(|tensor| Reverse(tensor.len_bytes()));
    tensors.truncate(MOST_TENSORS);
    let len_bytes = tensors.iter().map(SketchedTensor::len_bytes).sum();
    Ok(Sketch::new(len_bytes, None, tensors)?)
}

/// Returns the number of hashes that two signatures have in common.
fn common_hashes(one: &Signature, other: &Signature) -> usize {
    let is_common = |hash: &&u64| other.hashes().binary_search(hash).is_ok();
    one.hashes().iter().filter(is_common).count()
}

#[cfg(test)]
mod tests {
    use half::bf16;
    use zstn_core::bytes::part;
    use zstn_core::dtype::Dtype;
    use zstn_core::sketch::{SketchedTensor, runs};

    use crate::Engine;
    use crate::family::{Candidate, Sketch, bases};

    const ELEMENTS: usize = 20_000;

    /// Returns numbers from -1 to 1 that depend on `seed`, rounded to BF16.
    fn random(seed: u64) -> Vec<f32> {
        let mut state = seed;
        let number = |_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let [.., low, high] = state.to_le_bytes();
            let number = f32::from(i16::from_le_bytes([low, high])) / 32_768.0;
            bf16::from_f32(number).to_f32()
        };
        (0..ELEMENTS).map(number).collect()
    }

    /// Returns the sum of models, each times its weight, rounded to BF16.
    fn sum(terms: &[(f32, &[f32])]) -> Vec<f32> {
        let element = |number: usize| {
            terms
                .iter()
                .map(move |(weight, model)| weight * model[number])
        };
        (0..ELEMENTS)
            .map(|number| bf16::from_f32(element(number).sum()).to_f32())
            .collect()
    }

    fn sketch(model: &[f32]) -> Sketch {
        let words = model.iter();
        let words = words.flat_map(|number| bf16::from_f32(*number).to_le_bytes());
        let bytes: Vec<u8> = words.collect();
        let ranges = runs(Dtype::Bf16, bytes.len() as u64).into_iter();
        let samples = ranges.flat_map(|range| part(&bytes, range).to_vec());
        let (shape, samples) = (vec![ELEMENTS as u64], samples.collect());
        let tensor = SketchedTensor::new("w".into(), Dtype::Bf16, shape, None, samples);
        Sketch::new(bytes.len() as u64, None, vec![tensor.unwrap()]).unwrap()
    }

    /// Returns the bases of models, sorted. `planned` are numbers of models and of the packed
    /// files in which they are planned.
    fn choose(models: &[&[f32]], planned: &[(usize, usize)]) -> Vec<Vec<usize>> {
        let sketches: Vec<Sketch> = models.iter().map(|model| sketch(model)).collect();
        let mut candidates: Vec<Candidate> = sketches.iter().map(Candidate::new).collect();
        for &(number, files) in planned {
            candidates[number] = candidates[number].clone().planned(files);
        }
        let sketch = |number: usize| Ok(sketches[number].clone());
        let mut chosen = bases(&Engine::default(), &candidates, sketch, false).unwrap();
        chosen.iter_mut().for_each(|bases| bases.sort_unstable());
        chosen
    }

    #[test]
    fn merges_have_sources_that_are_no_merges() {
        let base = random(1);
        let [a, b] = [2, 3].map(|seed| sum(&[(1.0, &base), (0.03, &random(seed))]));
        let mean = sum(&[(0.5, &a), (0.5, &b)]);
        let other = sum(&[(0.25, &a), (0.75, &b)]);
        let unrelated = random(9);
        for merges_first in [true, false] {
            let mut models: [&[f32]; 6] = [&mean, &other, &unrelated, &base, &a, &b];
            if !merges_first {
                models.reverse();
            }
            let place = |model: &[f32]| models.iter().position(|one| *one == model).unwrap();
            let chosen = choose(&models, &[]);
            let mut sources = [place(&a), place(&b)];
            sources.sort_unstable();
            assert_eq!(chosen[place(&mean)], sources, "{chosen:?}");
            assert_eq!(chosen[place(&other)], sources, "{chosen:?}");
            assert!(chosen[place(&unrelated)].is_empty(), "{chosen:?}");
            // One of the others is the base of the two.
            let roots = [&base, &a, &b].map(|model| chosen[place(model)].len());
            assert_eq!(roots.iter().sum::<usize>(), 2, "{chosen:?}");
        }
    }

    #[test]
    fn sources_may_be_planned_but_have_few_files() {
        let base = random(1);
        let [a, b] = [2, 3].map(|seed| sum(&[(1.0, &base), (0.03, &random(seed))]));
        let mean = sum(&[(0.5, &a), (0.5, &b)]);
        let models: [&[f32]; 4] = [&base, &a, &b, &mean];
        let chosen = choose(&models, &[(0, 1), (1, 2), (2, 2)]);
        assert_eq!(chosen, [vec![], vec![], vec![], vec![1, 2]]);
        // Together they would be read from five files.
        let chosen = choose(&models, &[(0, 1), (1, 3), (2, 2)]);
        assert_ne!(chosen[3], [1, 2]);
        assert!(chosen[..3].iter().all(Vec::is_empty));
    }
}
