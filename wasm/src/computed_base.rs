//! A base computed from other checkpoints (docs/formats/zstn-delta.md 9).

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

    /// Extends bytes `begin` to `end` of a tensor to whole elements. Returns the extended range,
    /// and where the same elements are in each checkpoint, as
    /// `[begin, end, checkpoint, offset, length, …]`.
    pub fn places(&self, tensor: usize, begin: f64, end: f64) -> Result<Vec<f64>, JsValue> {
        let places = || {
            let tensor = self.0.tensors.get(tensor).ok_or_else(no_tensor)?;
            Ok(tensor.elements(to_u64(begin)?..to_u64(end)?))
        };
        let (bytes, places) = places().map_err(|error| to_js_error(&error))?;
        let whole = [bytes.start as f64, bytes.end as f64];
        Ok(whole.into_iter().chain(triples(places)).collect())
    }

    /// Computes some elements of a tensor, `lengthBytes` in total. `parts` are the bytes of the
    /// same elements in each of its places.
    #[allow(clippy::needless_pass_by_value)] // the way wasm-bindgen passes arrays
    pub fn compute(
        &self,
        tensor: usize,
        parts: Vec<Uint8Array>,
        #[wasm_bindgen(js_name = lengthBytes)] len_bytes: f64,
    ) -> Result<Vec<u8>, JsValue> {
        let compute = || {
            let tensor = self.0.tensors.get(tensor).ok_or_else(no_tensor)?;
            let parts: Vec<Vec<u8>> = parts.iter().map(Uint8Array::to_vec).collect();
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            let mut out = buffer(to_u64(len_bytes)?)?;
            tensor.compute(&parts, &mut out)?;
            Ok(out)
        };
        compute().map_err(|error| to_js_error(&error))
    }
}

fn no_tensor() -> Error {
    Error::invalid_input("there is no such tensor")
}
