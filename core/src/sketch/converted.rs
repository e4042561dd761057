//! The sketch of a base whose elements are converted to other dtypes
//! (docs/formats/zstn-delta.md 9).

use alloc::vec;
use alloc::vec::Vec;

use super::{SizeEstimate, Sketch, SketchedTensor, element_bytes};
use crate::container::model_delta::ConvertedShare;
use crate::float::FloatType;
use crate::frame::Edition;
use crate::transform::mix::Mix;

impl Sketch {
    /// Estimates the size of the delta of a single file against `base`, like
    /// [`Sketch::estimate_delta`]. Packing converts a base in another dtype if the delta may
    /// use [`Edition::Paired`].
    #[must_use]
    pub fn estimate_file_delta(&self, base: &Self, edition: Edition) -> SizeEstimate {
        let converts = edition >= Edition::Paired;
        let converted = converts.then(|| base.converted_for(self)).flatten();
        self.estimate_delta(converted.as_ref().unwrap_or(base), edition)
    }

    /// Returns the sketch of the base that packing `target` computes from this checkpoint,
    /// if most of the bytes of `target` have a counterpart of their name only in another
    /// dtype; otherwise `None`: the checkpoint is then the base as it is.
    fn converted_for(&self, target: &Self) -> Option<Self> {
        let mut share = ConvertedShare::default();
        let mut tensors = Vec::new();
        for tensor in &target.tensors {
            let Some(own) = self.find(&tensor.name) else {
                continue;
            };
            let is_same = (own.dtype, own.len_bytes) == (tensor.dtype, tensor.len_bytes);
            let own = match is_same {
                true => Some(own.clone()),
                false => own.converted_for(tensor),
            };
            if let Some(own) = own {
                share.add(tensor.len_bytes, !is_same);
                tensors.push(own);
            }
        }
        share.is_most().then_some(Self {
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
