//! The sketch of a base whose elements are converted to other dtypes
//! (docs/formats/zstn-delta.md 9).

use alloc::vec;
use alloc::vec::Vec;

use super::{Sketch, SketchedTensor, element_bytes};
use crate::float::FloatType;
use crate::transform::mix::Mix;

impl Sketch {
    /// Returns the sketch of the base that packing `target` computes from this checkpoint,
    /// if most of the bytes of `target` have a counterpart of their name only in another
    /// dtype; otherwise `None`: the checkpoint is then the base as it is.
    #[must_use]
    pub fn converted_for(&self, target: &Self) -> Option<Self> {
        let (mut same, mut converted) = (0_u64, 0_u64);
        let mut tensors = Vec::new();
        for tensor in &target.tensors {
            let Some(own) = self.find(&tensor.name) else {
                continue;
            };
            if (own.dtype, own.len_bytes) == (tensor.dtype, tensor.len_bytes) {
                same = same.saturating_add(tensor.len_bytes);
                tensors.push(own.clone());
            } else if let Some(own) = own.converted_for(tensor) {
                converted = converted.saturating_add(tensor.len_bytes);
                tensors.push(own);
            }
        }
        (converted > same).then_some(Self {
            original_len_bytes: self.original_len_bytes,
            base: None,
            tensors,
        })
    }
}

impl SketchedTensor {
    /// Returns this tensor in the dtype of `target`, if both have the same number of
    /// elements, and these can be converted.
    fn converted_for(&self, target: &Self) -> Option<Self> {
        let [own, other] = [self.dtype, target.dtype].map(FloatType::from_dtype);
        let (own, other) = (own?, other?);
        let elements = |tensor: &Self| tensor.len_bytes / element_bytes(tensor.dtype) as u64;
        if elements(self) != elements(target) {
            return None;
        }
        let mut samples = vec![0; target.samples.len()];
        Mix::copy_of(0, 1).apply(other, &[(own, &self.samples)], &mut samples);
        Some(Self {
            digest: None,
            samples,
            ..target.clone()
        })
    }
}
