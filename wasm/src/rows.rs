//! Some rows of a tensor; the reads are JavaScript's.

use std::borrow::Cow;

use wasm_bindgen::prelude::*;
use zstn_core::model::Rows as Core;

use crate::decode::decoded;
use crate::engine::ENGINE;
use crate::ranges::triples;

/// The byte ranges that some rows of a tensor need.
#[wasm_bindgen]
pub struct Rows(Core);

impl Rows {
    pub(crate) fn new(core: Core) -> Self {
        Self(core)
    }
}

#[wasm_bindgen]
impl Rows {
    /// Returns whether the tensor cannot be cut: the rows are then the bytes `span`
    /// of all of it.
    #[wasm_bindgen(js_name = isWhole)]
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.0.is_whole()
    }

    /// Bytes of the tensor that the rows are, as `[start, end]`.
    #[must_use]
    pub fn span(&self) -> Vec<f64> {
        let span = self.0.span();
        vec![span.start as f64, span.end as f64]
    }

    /// Bytes to fetch as `[file, offset, length, …]`.
    #[must_use]
    pub fn ranges(&self) -> Vec<f64> {
        triples(self.0.ranges())
    }

    /// The raw bytes of the rows from those of `ranges`.
    pub fn decode(&self, parts: Vec<js_sys::Uint8Array>) -> Result<js_sys::Uint8Array, JsValue> {
        decoded(&parts, None, None, |parts, _| {
            self.0.decode(&ENGINE, parts).map(Cow::Owned)
        })
    }
}
