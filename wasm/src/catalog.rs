//! The tensors of an opened file.

use serde::Serialize;
use wasm_bindgen::prelude::*;
use zstn_core::Error;
use zstn_core::catalog::{BaseUse, Catalog as Core};
use zstn_core::engine::Pure;

use crate::error::thrown;

/// What an opened file holds and how to decode it.
#[wasm_bindgen]
pub struct Catalog(Core);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tensor<'a> {
    name: &'a str,
    dtype: &'static str,
    shape: &'a [u64],
    byte_length: u64,
    stored_offset: u64,
    stored_length: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shared_with: Option<&'a str>,
}

impl Catalog {
    pub(crate) fn new(core: Core) -> Self {
        Self(core)
    }
}

#[wasm_bindgen]
impl Catalog {
    /// `"zstn"`, `"z4dm"`, `"ztensor"` or `"safetensors"`.
    #[must_use]
    pub fn kind(&self) -> String {
        self.0.kind().name().into()
    }

    /// Length in bytes of the safetensors file it is or was packed from; of a
    /// zTensor file, of all its tensors.
    #[wasm_bindgen(js_name = originalBytes)]
    #[must_use]
    pub fn original_bytes(&self) -> f64 {
        self.0.original_len_bytes() as f64
    }

    /// `__metadata__` of the header as a plain object.
    pub fn metadata(&self) -> Result<JsValue, JsValue> {
        let plain = serde_wasm_bindgen::Serializer::new().serialize_maps_as_objects(true);
        Ok(self.0.metadata().serialize(&plain)?)
    }

    /// All tensors, in data order.
    pub fn tensors(&self) -> Result<js_sys::Array, JsValue> {
        let all = self.0.tensors();
        all.iter()
            .map(|tensor| {
                let row = Tensor {
                    name: &tensor.name,
                    dtype: tensor.dtype.name(),
                    shape: &tensor.shape,
                    byte_length: tensor.len_bytes(),
                    stored_offset: tensor.stored.start,
                    stored_length: tensor.stored_len_bytes(),
                    base: tensor.base.map(BaseUse::name),
                    shared_with: tensor.shared_with.map(|owner| all[owner].name.as_str()),
                };
                serde_wasm_bindgen::to_value(&row).map_err(|_| {
                    // Only numbers beyond 2^53 do not pass.
                    thrown(
                        &Error::limit("a size is too large for JavaScript numbers")
                            .tensor(&tensor.name),
                    )
                })
            })
            .collect()
    }

    /// Whether it is a delta, which is read together with its base.
    #[wasm_bindgen(js_name = needsBase)]
    #[must_use]
    pub fn needs_base(&self) -> bool {
        self.0.needs_base()
    }

    /// Throws if `base` is not what this delta was made against.
    #[wasm_bindgen(js_name = checkBase)]
    pub fn check_base(&self, base: &Self) -> Result<(), JsValue> {
        self.0.check_base(&base.0).map_err(|e| thrown(&e))
    }

    /// The raw bytes of tensor `index` from its stored bytes.
    pub fn decode(&self, index: usize, stored: &[u8]) -> Result<js_sys::Uint8Array, JsValue> {
        self.decoded(index, stored, None)
    }

    /// As `decode`, for a tensor that also needs the `base`'s of its name.
    #[wasm_bindgen(js_name = decodeAgainst)]
    pub fn decode_against(
        &self,
        index: usize,
        stored: &[u8],
        base: &[u8],
    ) -> Result<js_sys::Uint8Array, JsValue> {
        self.decoded(index, stored, Some(base))
    }
}

impl Catalog {
    fn decoded(
        &self,
        index: usize,
        stored: &[u8],
        base: Option<&[u8]>,
    ) -> Result<js_sys::Uint8Array, JsValue> {
        if index >= self.0.tensors().len() {
            return Err(thrown(&Error::invalid_input(format!(
                "there is no tensor number {index}"
            ))));
        }
        self.0
            .decode_against(&Pure, index, stored, base)
            .map(|bytes| js_sys::Uint8Array::from(&*bytes))
            .map_err(|e| thrown(&e))
    }
}
