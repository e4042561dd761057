//! Plans and decodes ranges of rows of a tensor. JavaScript does the reads.

use std::borrow::Cow;

use wasm_bindgen::prelude::*;
use zstn_core::model::Rows as Core;

use crate::conversion::triples;
use crate::decode::{ENGINE, decoded};

/// A plan for reading a range of rows of a tensor.
#[wasm_bindgen]
pub struct Rows(Core);

impl Rows {
    pub(crate) fn new(core: Core) -> Self {
        Self(core)
    }
}

#[wasm_bindgen]
impl Rows {
    /// Returns whether the whole tensor has to be decoded. The rows are then the bytes
    /// `span` of the decoded tensor.
    #[wasm_bindgen(js_name = isWhole)]
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.0.is_whole()
    }

    /// Returns the position of the rows in the decoded tensor as `[start, end]`, in
    /// bytes.
    #[must_use]
    pub fn span(&self) -> Vec<f64> {
        let span = self.0.span();
        vec![span.start as f64, span.end as f64]
    }

    /// Returns the ranges to fetch as `[file, offset, length, …]`.
    #[must_use]
    pub fn ranges(&self) -> Vec<f64> {
        triples(self.0.ranges())
    }

    /// Returns the rows of the base's tensor that decoding needs, and the bytes to take
    /// from these rows, as `[first, last, start, end]`; empty if decoding needs none. The
    /// base's tensor has `rows` rows and `len_bytes` bytes.
    #[wasm_bindgen(js_name = baseRows)]
    #[must_use]
    pub fn base_rows(&self, rows: f64, len_bytes: f64) -> Vec<f64> {
        let Some(span) = self.0.base().filter(|span| !span.is_empty()) else {
            return Vec::new();
        };
        let (start, end) = (span.start as f64, span.end as f64);
        let row_bytes = len_bytes / rows;
        let (first, last) = ((start / row_bytes).floor(), (end / row_bytes).ceil());
        let before = first * row_bytes;
        vec![first, last, start - before, end - before]
    }

    /// Decodes the rows from the bytes of `ranges`, and of `baseRows` if there are any.
    /// Returns their raw bytes.
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
