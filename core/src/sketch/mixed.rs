//! The sketch of a base computed from several checkpoints
//! (docs/formats/zstn-delta.md 9).

use alloc::vec;
use alloc::vec::Vec;

use super::{Sketch, SketchedTensor};
use crate::float::FloatType;
use crate::transform::mix;

impl Sketch {
    /// Returns the sketch of a base computed from `sources` that is as close to this
    /// checkpoint as possible. Only tensors of the same name, dtype and length
    /// are combined.
    #[must_use]
    pub fn mixed(&self, sources: &[&Self]) -> Self {
        let tensors = self.tensors.iter();
        Self {
            original_len_bytes: self.original_len_bytes,
            base: None,
            tensors: tensors
                .filter_map(|tensor| mixed(tensor, sources))
                .collect(),
        }
    }
}

fn mixed(tensor: &SketchedTensor, sources: &[&Sketch]) -> Option<SketchedTensor> {
    let found = sources
        .iter()
        .filter_map(|source| source.find(&tensor.name));
    let found =
        found.filter(|other| (other.dtype, other.len_bytes) == (tensor.dtype, tensor.len_bytes));
    let found: Vec<&SketchedTensor> = found.collect();
    let is_equal =
        |other: &&&SketchedTensor| other.digest.is_some() && other.digest == tensor.digest;
    if let Some(equal) = found.iter().find(is_equal) {
        return Some((*equal).clone());
    }
    let samples: Vec<&[u8]> = found.iter().map(|other| &*other.samples).collect();
    let float = FloatType::from_dtype(tensor.dtype);
    let (Some(float), [_, _, ..]) = (float, &samples[..]) else {
        let first = found.first()?;
        let width = tensor.dtype.len_bytes().unwrap_or(1);
        let nearest = mix::nearest(width, &tensor.samples, &samples);
        return Some((*found.get(nearest).unwrap_or(first)).clone());
    };
    let numbers: Vec<usize> = (0..samples.len()).collect();
    let mix = mix::fit(float, &tensor.samples, &samples, &numbers, samples.len());
    let used: Vec<usize> = mix.used().collect();
    if let (true, Some(only)) = (mix.is_copy(), used.first()) {
        return Some(found[*only].clone());
    }
    let used: Vec<&[u8]> = used.iter().map(|number| samples[*number]).collect();
    let mut predicted = vec![0; tensor.samples.len()];
    mix.apply(float, &used, &mut predicted);
    Some(SketchedTensor {
        digest: None,
        samples: predicted,
        ..tensor.clone()
    })
}
