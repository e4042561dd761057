//! Some rows of a tensor; the reads are JavaScript's.

use wasm_bindgen::prelude::*;
use zstn_core::engine::Pure;
use zstn_core::model::Rows as Core;

use crate::error::thrown;

/// What has to be fetched for some rows of a tensor.
#[wasm_bindgen]
pub struct Rows(Core);

impl Rows {
    pub(crate) fn new(core: Core) -> Self {
        Self(core)
    }
}

#[wasm_bindgen]
impl Rows {
    /// Whether the tensor cannot be cut: the rows are then the bytes `span`
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
        let ranges = self.0.ranges();
        ranges
            .flat_map(|(file, range)| {
                let len = range.end - range.start;
                [file as f64, range.start as f64, len as f64]
            })
            .collect()
    }

    /// The raw bytes of the rows from those of `ranges`.
    pub fn decode(&self, parts: Vec<js_sys::Uint8Array>) -> Result<js_sys::Uint8Array, JsValue> {
        let parts: Vec<Vec<u8>> = parts.iter().map(js_sys::Uint8Array::to_vec).collect();
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        self.0
            .decode(&Pure, &parts)
            .map(|bytes| js_sys::Uint8Array::from(bytes.as_slice()))
            .map_err(|e| thrown(&e))
    }
}
