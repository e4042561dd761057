//! The layout of a model as one safetensors file. JavaScript reads and decodes the
//! tensors.

use js_sys::Uint8Array;
use wasm_bindgen::prelude::*;
use zstn_core::Error;
use zstn_core::model::{Piece, Unpacked as Core};

use crate::Model;
use crate::conversion::{to_js_error, to_u64};

/// The layout of a model as one safetensors file.
#[wasm_bindgen]
pub struct Unpacked(Core);

#[wasm_bindgen]
impl Model {
    /// Returns the layout of the safetensors file that the model is or was packed from,
    /// or of a generated one with its tensors.
    pub fn unpacked(&self) -> Result<Unpacked, JsValue> {
        let unpacked = self.core().unpacked().map_err(|e| to_js_error(&e))?;
        to_u64(unpacked.len_bytes() as f64).map_err(|_| {
            let error = "all tensors together are longer than JavaScript can count";
            to_js_error(&Error::limit(error))
        })?;
        Ok(Unpacked(unpacked))
    }
}

#[wasm_bindgen]
impl Unpacked {
    /// Returns the bytes of the file before its data.
    #[must_use]
    pub fn head(&self) -> Uint8Array {
        Uint8Array::from(self.0.head())
    }

    /// Returns the length of the file, in bytes.
    #[wasm_bindgen(js_name = sizeBytes)]
    #[must_use]
    pub fn size_bytes(&self) -> f64 {
        self.0.len_bytes() as f64
    }

    /// Returns whether the file is byte for byte the one that was packed.
    #[wasm_bindgen(js_name = isOriginal)]
    #[must_use]
    pub fn is_original(&self) -> bool {
        self.0.is_original()
    }

    /// Returns the tensors that overlap bytes `begin` to `end` of the file, in order, as
    /// `[number, begin, end, …]` with the overlap in bytes of the tensor. The head is not
    /// listed.
    pub fn tensors(&self, begin: f64, end: f64) -> Result<Vec<f64>, JsValue> {
        let range = || Ok(to_u64(begin)?..to_u64(end)?);
        let range = range().map_err(|e: Error| to_js_error(&e))?;
        let tensors = self.0.pieces(range).filter_map(|piece| match piece {
            Piece::Head(_) => None,
            Piece::Tensor { number, bytes } => {
                Some([number as f64, bytes.start as f64, bytes.end as f64])
            }
        });
        Ok(tensors.flatten().collect())
    }
}
