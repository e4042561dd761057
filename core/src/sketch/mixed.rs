//! The sketch of a base computed from several checkpoints
//! (docs/formats/zstn-delta.md 9).

use alloc::vec;
use alloc::vec::Vec;

use super::{Sketch, SketchedTensor};
use crate::float::FloatType;
use crate::transform::mix;

impl Sketch {
    /// Returns the sketch of a base computed from `sources` that is as close to this
    /// checkpoint as possible. Tensors are combined if they have the same dtype and
    /// length; their names may differ.
    #[must_use]
    pub fn mixed(&self, sources: &[&Self]) -> Self {
        let counterparts = sources.iter().map(|source| self.counterparts(source, true));
        let counterparts: Vec<_> = counterparts.collect();
        let tensors = self.tensors.iter().enumerate();
        let tensors = tensors.filter_map(|(number, tensor)| {
            let found = counterparts.iter().filter_map(|all| all[number].as_ref());
            let found = found.map(|(other, _, _)| *other);
            let found = found
                .filter(|other| (other.dtype, other.len_bytes) == (tensor.dtype, tensor.len_bytes));
            mixed(tensor, &found.collect::<Vec<_>>())
        });
        Self {
            original_len_bytes: self.original_len_bytes,
            base: None,
            tensors: tensors.collect(),
        }
    }
}

/// Returns the tensor that is computed from the tensors `found` in the sources, under the
/// name of the target's tensor.
fn mixed(tensor: &SketchedTensor, found: &[&SketchedTensor]) -> Option<SketchedTensor> {
    let renamed = |other: &SketchedTensor| SketchedTensor {
        name: tensor.name.clone(),
        ..other.clone()
    };
    let is_equal =
        |other: &&&SketchedTensor| other.digest.is_some() && other.digest == tensor.digest;
    if let Some(equal) = found.iter().find(is_equal) {
        return Some(renamed(equal));
    }
    let samples: Vec<&[u8]> = found.iter().map(|other| &*other.samples).collect();
    let float = FloatType::from_dtype(tensor.dtype);
    let (Some(float), [_, _, ..]) = (float, &samples[..]) else {
        let first = found.first()?;
        let width = tensor.dtype.len_bytes().unwrap_or(1);
        let nearest = mix::nearest(width, &tensor.samples, &samples);
        return Some(renamed(found.get(nearest).unwrap_or(first)));
    };
    let numbers: Vec<usize> = (0..samples.len()).collect();
    let mix = mix::fit(float, &tensor.samples, &samples, &numbers, samples.len());
    let used: Vec<usize> = mix.used().collect();
    if let (true, Some(only)) = (mix.is_copy(), used.first()) {
        return Some(renamed(found[*only]));
    }
    let used: Vec<_> = used
        .iter()
        .map(|number| (float, samples[*number]))
        .collect();
    let mut predicted = vec![0; tensor.samples.len()];
    mix.apply(float, &used, &mut predicted);
    Some(SketchedTensor {
        digest: None,
        samples: predicted,
        ..tensor.clone()
    })
}
