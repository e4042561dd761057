//! The base of a merged model, computed from several checkpoints
//! (docs/formats/zstn-delta.md 9).

use core::ops::Range;

use js_sys::Uint8Array;
use wasm_bindgen::prelude::*;
use zstn_core::Error;
use zstn_core::bytes::buffer;
use zstn_core::container::model_delta::{MixedBase, MixedTensor};

use crate::conversion::{to_js_error, to_u64, triples};

/// The file of a base that is computed. JavaScript reads the checkpoints.
#[wasm_bindgen]
pub struct ComputedBase(MixedBase);

impl ComputedBase {
    pub(crate) fn new(base: MixedBase) -> Self {
        Self(base)
    }
}

#[wasm_bindgen]
impl ComputedBase {
    /// Returns the bytes before the data.
    #[must_use]
    pub fn head(&self) -> Vec<u8> {
        self.0.head.clone()
    }

    /// Returns the length of the file in bytes.
    #[wasm_bindgen(js_name = sizeBytes)]
    #[must_use]
    pub fn size_bytes(&self) -> f64 {
        self.0.len_bytes() as f64
    }

    /// Returns the tensors that overlap bytes `begin` to `end` of the file, in order, as
    /// `[number, begin, end, …]` with the overlap in bytes of the tensor. The head is not
    /// listed.
    pub fn tensors(&self, begin: f64, end: f64) -> Result<Vec<f64>, JsValue> {
        let range = || Ok(to_u64(begin)?..to_u64(end)?);
        let Range { start, end } = range().map_err(|e: Error| to_js_error(&e))?;
        let tensors = self.0.tensors.iter().enumerate();
        let tensors = tensors.filter(|(_, tensor)| tensor.range.start < end);
        let overlaps = tensors.filter_map(|(number, MixedTensor { range, .. })| {
            let overlap = [range.start.max(start), range.end.min(end)];
            let [begin, end] = overlap.map(|at| at.saturating_sub(range.start) as f64);
            (begin < end).then_some([number as f64, begin, end])
        });
        Ok(overlaps.flatten().collect())
    }

    /// Returns the places of the tensor in the checkpoints that it is computed from, as
    /// `[checkpoint, offset, length, …]`.
    #[must_use]
    pub fn places(&self, tensor: usize) -> Vec<f64> {
        let tensor = self.0.tensors.get(tensor);
        triples(tensor.into_iter().flat_map(|tensor| tensor.places.clone()))
    }

    /// Computes elements of a tensor from the same elements of its `places`, in their
    /// order.
    #[allow(clippy::needless_pass_by_value)] // the way wasm-bindgen passes arrays
    pub fn compute(&self, tensor: usize, parts: Vec<Uint8Array>) -> Result<Vec<u8>, JsValue> {
        let compute = || {
            let unfit = || Error::invalid_input("the parts are not those of the tensor");
            let tensor = self.0.tensors.get(tensor).ok_or_else(unfit)?;
            let parts: Vec<Vec<u8>> = parts.iter().map(Uint8Array::to_vec).collect();
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            let [first, ..] = parts[..] else {
                return Err(unfit());
            };
            let step = tensor.float.map_or(1, |float| float.len_bytes());
            let is_fit = parts.len() == tensor.places.len()
                && first.len().is_multiple_of(step)
                && parts.iter().all(|part| part.len() == first.len());
            if !is_fit {
                return Err(unfit());
            }
            let Some(float) = tensor.float else {
                return Ok(first.to_vec());
            };
            let mut out = buffer(first.len() as u64)?;
            tensor.mix.apply(float, &parts, &mut out);
            Ok(out)
        };
        compute().map_err(|error| to_js_error(&error))
    }
}
