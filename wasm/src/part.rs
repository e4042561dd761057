//! Plans and decodes ranges of bytes of a tensor. JavaScript does the reads.

use std::borrow::Cow;

use wasm_bindgen::prelude::*;
use zstn_core::model::Rows as Core;

use crate::conversion::triples;
use crate::decode::{ENGINE, decoded};

/// A plan for reading a range of the bytes of a tensor.
#[wasm_bindgen]
pub struct Part(Core);

impl Part {
    pub(crate) fn new(core: Core) -> Self {
        Self(core)
    }
}

#[wasm_bindgen]
impl Part {
    /// Returns whether the whole tensor has to be decoded, from which the caller takes
    /// the range.
    #[wasm_bindgen(js_name = isWhole)]
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.0.is_whole()
    }

    /// Returns the ranges to fetch as `[file, offset, length, …]`.
    #[must_use]
    pub fn ranges(&self) -> Vec<f64> {
        triples(self.0.ranges())
    }

    /// Returns the number of bytes of the tensor that are decoded together; 0 if the
    /// tensor is not stored in blocks.
    #[wasm_bindgen(js_name = bandBytes)]
    #[must_use]
    pub fn band_bytes(&self) -> f64 {
        self.0.band_bytes().unwrap_or(0) as f64
    }

    /// Returns the range of the base's tensor that decoding needs, as `[start, end]` in
    /// bytes; empty if decoding needs none.
    #[must_use]
    pub fn base(&self) -> Vec<f64> {
        let span = self.0.base().filter(|span| !span.is_empty());
        let span = span.map(|span| vec![span.start as f64, span.end as f64]);
        span.unwrap_or_default()
    }

    /// Decodes the range from the bytes of `ranges`, and of `base` if it is not empty.
    /// Returns its raw bytes.
    pub fn decode(
        &self,
        parts: Vec<js_sys::Uint8Array>,
        base: Option<Vec<u8>>,
    ) -> Result<js_sys::Uint8Array, JsValue> {
        decoded(&parts, base.as_deref(), None, |parts, base| {
            self.0.decode(&ENGINE, parts, base).map(Cow::Owned)
        })
    }
}
