//! Opens a file step by step. JavaScript does the reads in between.

use wasm_bindgen::prelude::*;
use zstn_core::catalog::FileOpener as Core;

use crate::Catalog;
use zstn_core::pure::Pure;

use crate::error::to_js_error;
use crate::number::to_u64;

/// A file that is being opened.
#[wasm_bindgen]
pub struct Opening(Core);

#[wasm_bindgen]
impl Opening {
    /// Starts from the first bytes of a file of `sizeBytes` bytes. `head` has
    /// [`zstn_core::limits::HEAD_LEN_BYTES`] bytes, or is the whole file if that is
    /// shorter.
    #[wasm_bindgen(constructor)]
    pub fn new(
        #[wasm_bindgen(js_name = sizeBytes)] size_bytes: f64,
        head: Vec<u8>,
    ) -> Result<Self, JsValue> {
        let size = to_u64(size_bytes).map_err(|e| to_js_error(&e))?;
        Core::new(size, head).map(Self).map_err(|e| to_js_error(&e))
    }

    /// Returns the missing ranges as `[offset, length, offset, length, …]`; empty once
    /// `finish` can be called.
    pub fn needs(&self) -> Result<Vec<f64>, JsValue> {
        let ranges = self.0.needs().map_err(|e| to_js_error(&e))?;
        Ok(ranges
            .into_iter()
            .flat_map(|range| [range.start as f64, (range.end - range.start) as f64])
            .collect())
    }

    /// Adds the bytes of one range that `needs` has returned.
    pub fn supply(&mut self, offset: f64, bytes: &[u8]) -> Result<(), JsValue> {
        let offset = to_u64(offset).map_err(|e| to_js_error(&e))?;
        self.0.supply(offset, bytes).map_err(|e| to_js_error(&e))
    }

    /// Returns the catalog of the file and consumes the opening.
    pub fn finish(self) -> Result<Catalog, JsValue> {
        self.0
            .finish(&Pure)
            .map(Catalog::new)
            .map_err(|e| to_js_error(&e))
    }
}
