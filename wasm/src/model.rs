//! The tensors of an opened model.

use js_sys::Uint8Array;
use serde::Serialize;
use wasm_bindgen::prelude::*;
use zstn_core::Error;
use zstn_core::catalog::BaseUse;
use zstn_core::model::{Model as Core, Tensor as CoreTensor};

use crate::Rows;
use crate::decode::decoded;
use crate::engine::ENGINE;
use crate::error::to_js_error;
use crate::number::to_u64;
use crate::ranges::triples;

/// The tensors of a model, and how to decode them.
#[wasm_bindgen]
pub struct Model(Core);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tensor<'a> {
    name: &'a str,
    dtype: &'static str,
    shape: &'a [u64],
    byte_length: u64,
    stored_length: u64,
    parts: Vec<Part>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<&'static str>,
    #[serde(rename = "aliasOf", skip_serializing_if = "Option::is_none")]
    shared_with: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'static str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Plane {
    name: String,
    method: &'static str,
    byte_length: u64,
    stored_length: u64,
}

#[derive(Serialize)]
struct Part {
    file: usize,
    offset: u64,
    length: u64,
}

impl Model {
    pub(crate) fn new(core: Core) -> Self {
        Self(core)
    }

    pub(crate) fn core(&self) -> &Core {
        &self.0
    }

    fn row<'a>(&'a self, tensor: &'a CoreTensor) -> Tensor<'a> {
        let parts = tensor.parts.iter().map(|part| Part {
            file: part.file,
            offset: part.stored.start,
            length: part.stored.end - part.stored.start,
        });
        let owner = tensor.alias_of.map(|owner| &self.0.tensors()[owner]);
        Tensor {
            name: &tensor.name,
            dtype: tensor.dtype.name(),
            shape: &tensor.shape,
            byte_length: tensor.len_bytes(),
            stored_length: tensor.stored_len_bytes(),
            parts: parts.collect(),
            base: tensor.base.map(BaseUse::name),
            shared_with: owner.map(|owner| owner.name.as_str()),
            format: tensor.format(),
        }
    }
}

#[wasm_bindgen]
impl Model {
    /// `"zstn"`, `"safetensors"`, `"z4dm"`, `"ztensor"`, `"gauss"` or
    /// `"compressed-tensors"`.
    #[must_use]
    pub fn kind(&self) -> String {
        self.0.kind().name().into()
    }

    /// Length in bytes of the safetensors files it is or was packed from; of
    /// all its tensors if there were none.
    #[wasm_bindgen(js_name = originalBytes)]
    #[must_use]
    pub fn original_bytes(&self) -> f64 {
        self.0.original_len_bytes() as f64
    }

    /// `__metadata__` of the headers as a plain object.
    pub fn metadata(&self) -> Result<JsValue, JsValue> {
        let plain = serde_wasm_bindgen::Serializer::new().serialize_maps_as_objects(true);
        Ok(self.0.metadata().serialize(&plain)?)
    }

    /// All tensors, file by file and in data order.
    pub fn tensors(&self) -> Result<js_sys::Array, JsValue> {
        let all = self.0.tensors().iter();
        all.map(|tensor| {
            serde_wasm_bindgen::to_value(&self.row(tensor)).map_err(|_| {
                // Only numbers beyond 2^53 do not pass.
                let error = Error::limit("a size is too large for JavaScript numbers");
                to_js_error(&error.tensor(&tensor.name))
            })
        })
        .collect()
    }

    /// Tensors that cannot be had, as errors.
    #[must_use]
    pub fn refused(&self) -> js_sys::Array {
        let all = self.0.refused();
        all.map(|(name, error)| to_js_error(&error.clone().tensor(name)))
            .collect()
    }

    /// Returns whether it is a delta, which is read together with its base.
    #[wasm_bindgen(js_name = needsBase)]
    #[must_use]
    pub fn needs_base(&self) -> bool {
        self.0.needs_base()
    }

    /// Throws if `base` is not what this delta was made against.
    #[wasm_bindgen(js_name = checkBase)]
    pub fn check_base(&self, base: &Self) -> Result<(), JsValue> {
        self.0.check_base(&base.0).map_err(|e| to_js_error(&e))
    }

    /// This module, compiled, for other instances of it.
    #[must_use]
    pub fn module(&self) -> JsValue {
        wasm_bindgen::module()
    }

    /// Returns whether it is the module with all formats.
    #[wasm_bindgen(js_name = hasFormats)]
    #[must_use]
    pub fn has_formats(&self) -> bool {
        cfg!(feature = "formats")
    }

    /// Returns whether the stored bytes of tensor `index` are the tensor.
    #[wasm_bindgen(js_name = isPlain)]
    #[must_use]
    pub fn is_plain(&self, index: usize) -> bool {
        self.0.is_plain(index)
    }

    /// Returns the argument `task` of the function `decode`, with which another
    /// instance decodes tensor `index`.
    pub fn task(&self, index: usize) -> Result<Vec<u8>, JsValue> {
        let task = self
            .0
            .decode_task(index)
            .map_err(|error| to_js_error(&error))?;
        Ok(task.to_bytes())
    }

    /// Returns where the block table is that `rows` needs for tensor `index`, as
    /// `[file, offset, length]`; empty if it needs none.
    #[wasm_bindgen(js_name = blockTable)]
    #[must_use]
    pub fn block_table(&self, index: usize) -> Vec<f64> {
        triples(self.0.block_table(index))
    }

    /// Returns the stored size of each plane of tensor `index`; undefined where the file does
    /// not say. `table` as for `rows`.
    #[wasm_bindgen(js_name = planeSizes)]
    pub fn plane_sizes(&self, index: usize, table: Option<Vec<u8>>) -> Result<JsValue, JsValue> {
        let planes = self.0.plane_sizes(index, table.as_deref());
        let planes = planes.map_err(|e| to_js_error(&e))?;
        let plain = planes.map(|planes| {
            let sizes = planes.into_iter().map(|plane| Plane {
                name: plane.name,
                method: plane.method.name(),
                byte_length: plane.len_bytes,
                stored_length: plane.stored_len_bytes,
            });
            sizes.collect::<Vec<_>>()
        });
        Ok(serde_wasm_bindgen::to_value(&plain)?)
    }

    /// Returns the plan for rows `start` to `end` of tensor `index`.
    pub fn rows(
        &self,
        index: usize,
        start: f64,
        end: f64,
        table: Option<Vec<u8>>,
    ) -> Result<Rows, JsValue> {
        let rows = to_u64(start).and_then(|start| Ok(start..to_u64(end)?));
        rows.and_then(|rows| self.0.rows(index, rows, table.as_deref()))
            .map(Rows::new)
            .map_err(|e| to_js_error(&e))
    }

    /// The raw bytes of tensor `index` from those of its parts, in their
    /// order, and from the `base`'s tensor of its name if it needs that; in
    /// `into` if it is given.
    pub fn decode(
        &self,
        index: usize,
        parts: Vec<Uint8Array>,
        base: Option<Vec<u8>>,
        into: Option<Uint8Array>,
    ) -> Result<Uint8Array, JsValue> {
        decoded(&parts, base.as_deref(), into, |parts, base| {
            self.0.decode(&ENGINE, index, parts, base)
        })
    }
}
