//! Pairs the tensors of two checkpoints by their samples alone, because another format may
//! use other names (docs/formats/zstn-delta.md 6).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::estimate::Place;
use super::{SizeEstimate, Sketch, SketchedTensor, element_bytes};
use crate::dtype::Dtype;
use crate::frame::Edition;
use crate::transform::mix::differing_bits;

/// Shorter tensors, in bytes, are compared only with the tensor of the same name.
pub const MIN_BYTES: u64 = 256;
/// The maximum number of tensors of the same dtype and length that a tensor without an
/// equal one is compared with.
const MAX_COMPARED: usize = 256;
/// Two tensors are similar if at most this percentage of their bits is needed to store
/// their difference, which takes all bits from the highest one that differs in an element.
/// It is 77 for unrelated normal weights in BF16, and more in other dtypes.
const MAX_DIFFERENCE_PERCENT: u64 = 70;

impl Sketch {
    /// Estimates the size of a delta of a file that is not safetensors against `base`,
    /// like [`Sketch::estimate_delta`]. A tensor without one of the same name, dtype and
    /// length is compared with the one whose samples are most [`similar`].
    #[must_use]
    pub fn estimate_original_delta(&self, base: &Self, edition: Edition) -> SizeEstimate {
        let mut found = self.counterparts(base, false);
        let nameless = self.tensors.iter().zip(&found);
        let nameless = nameless.filter_map(|(tensor, found)| found.is_none().then_some(tensor));
        let of_base: Vec<&SketchedTensor> = base.tensors.iter().collect();
        let mut others = similar(&nameless.collect::<Vec<_>>(), &of_base).into_iter();
        for (tensor, found) in self.tensors.iter().zip(&mut found) {
            if found.is_none()
                && let Some(number) = others.next().flatten()
            {
                *found = Some((of_base[number], Place::Same, tensor.len_bytes));
            }
        }
        self.estimate(&self.compared(found, edition))
    }
}

/// Returns for each tensor of `target` the number of a tensor in `base` with the same
/// dtype and length: the first one with equal samples, otherwise the one whose samples
/// differ least, if they are similar. With very many tensors of one dtype and length,
/// only those at similar places in both lists are compared.
#[must_use]
pub fn similar(target: &[&SketchedTensor], base: &[&SketchedTensor]) -> Vec<Option<usize>> {
    let mut classes: BTreeMap<(Dtype, u64), Class> = BTreeMap::new();
    for (number, tensor) in base.iter().enumerate() {
        let class = classes.entry(key(tensor)).or_default();
        class.equal.entry(&tensor.samples).or_insert(number);
        class.numbers.push(number);
    }
    for tensor in target {
        if let Some(class) = classes.get_mut(&key(tensor)) {
            class.targets += 1;
        }
    }
    let found = target.iter().map(|tensor| {
        let class = classes.get_mut(&key(tensor))?;
        let place = class.numbers.len() * class.passed / class.targets;
        class.passed += 1;
        if tensor.len_bytes < MIN_BYTES {
            return None;
        }
        let equal = class.equal.get(&*tensor.samples).copied();
        equal.or_else(|| nearest(tensor, class.around(place), base))
    });
    found.collect()
}

fn key(tensor: &SketchedTensor) -> (Dtype, u64) {
    (tensor.dtype, tensor.len_bytes)
}

/// The tensors of a dtype and length.
#[derive(Default)]
struct Class<'a> {
    /// The numbers of the base's tensors.
    numbers: Vec<usize>,
    /// The first number with these samples.
    equal: BTreeMap<&'a [u8], usize>,
    /// How many tensors of the target belong to the class.
    targets: usize,
    /// How many of them have been compared so far.
    passed: usize,
}

impl Class<'_> {
    /// Returns the numbers at the places around this one.
    fn around(&self, place: usize) -> &[usize] {
        let last = self.numbers.len().saturating_sub(MAX_COMPARED);
        let first = place.saturating_sub(MAX_COMPARED / 2).min(last);
        let end = self.numbers.len().min(first + MAX_COMPARED);
        self.numbers.get(first..end).unwrap_or_default()
    }
}

/// Returns the first of `numbers` whose tensor differs least, if one is similar.
fn nearest(tensor: &SketchedTensor, numbers: &[usize], base: &[&SketchedTensor]) -> Option<usize> {
    let most = tensor.samples.len() as u64 * 8 * MAX_DIFFERENCE_PERCENT / 100;
    let bits = numbers.iter().filter_map(|&number| {
        let width = element_bytes(tensor.dtype);
        let bits = differing_bits(width, &tensor.samples, &base.get(number)?.samples);
        Some((bits, number))
    });
    let (bits, number) = bits.min()?;
    (bits <= most).then_some(number)
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec;

    use super::*;
    use crate::sketch::runs;

    /// Returns random BF16 weights. If they are tuned, the last bit of every fiftieth one is
    /// flipped.
    fn tensor(seed: u32, is_tuned: bool, elements: u64) -> SketchedTensor {
        let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
        let runs = runs(Dtype::Bf16, 2 * elements).into_iter();
        let len = runs.map(|run| run.end - run.start);
        let words = (0..len.sum::<u64>() / 2).flat_map(|number| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            let [low, high, ..] = state.to_le_bytes();
            let word = u16::from_le_bytes([low, high & 0x87 | 0x38]);
            (word ^ u16::from(is_tuned && number % 50 == 0)).to_le_bytes()
        });
        let name = format!("{seed}");
        SketchedTensor::new(name, Dtype::Bf16, vec![elements], None, words.collect()).unwrap()
    }

    fn found(target: &[SketchedTensor], base: &[SketchedTensor]) -> Vec<Option<usize>> {
        let [target, base] = [target, base].map(|all| all.iter().collect::<Vec<_>>());
        similar(&target, &base)
    }

    #[test]
    fn tensors_are_found_by_their_values() {
        let base: Vec<_> = (0..20).map(|seed| tensor(seed, false, 4096)).collect();
        let target = [
            tensor(7, false, 4096),
            tensor(3, true, 4096),
            tensor(30, false, 4096),
        ];
        assert_eq!(found(&target, &base), [Some(7), Some(3), None]);
        // Neither other lengths nor short tensors.
        assert_eq!(found(&[tensor(7, false, 8192)], &base), [None]);
        let short = || [tensor(1, false, 64)];
        assert_eq!(found(&short(), &short()), [None]);
        assert_eq!(found(&[], &base), []);
    }

    #[test]
    fn among_very_many_tensors_an_equal_one_or_one_at_a_similar_place_is_found() {
        let base: Vec<_> = (0..1000).map(|seed| tensor(seed, false, 200)).collect();
        let mut target: Vec<_> = (0..1000)
            .map(|seed| tensor(seed, seed % 2 == 0, 200))
            .collect();
        let all: Vec<_> = (0..1000).map(Some).collect();
        assert_eq!(found(&target, &base), all);
        target.reverse();
        let found = found(&target, &base);
        assert!(
            found
                .iter()
                .rev()
                .zip(&all)
                .skip(1)
                .step_by(2)
                .all(|(one, other)| one == other)
        );
    }
}
