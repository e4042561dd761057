//! Packs a file step by step. JavaScript does the reads and writes in between.

use js_sys::Uint8Array;
use serde::Serialize;
use wasm_bindgen::prelude::*;
use zstn_core::Error;
use zstn_core::container::zstn::{
    ContainerOptions, IncrementalPacker as Core, OriginalSha256, parse_sha256,
};
use zstn_core::pure::Pure;

use crate::error::to_js_error;
use crate::frames::{ROOM, answer, check_room, copied, effort_named};
use crate::number::to_u64;

/// A file that is being packed.
#[wasm_bindgen]
pub struct Packing(Core);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Packed<'a> {
    name: &'a str,
    byte_length: u64,
    stored_length: u64,
    #[serde(rename = "aliasOf", skip_serializing_if = "Option::is_none")]
    shared_with: Option<&'a str>,
}

#[wasm_bindgen]
impl Packing {
    /// Starts packing a file of `sizeBytes` bytes; `effort` is `"fast"`, `"balanced"` or
    /// `"max"`.
    ///
    /// A file that ends before its tensors do is rejected unless `allowTruncated` is set.
    /// `statistics` adds statistics of the tensors. `extended` allows extension frames;
    /// `prefix` then returns the first bytes of the complete container, and `supply` does
    /// not. `sha256`, if it is given, is the SHA-256 of the file in hexadecimal digits,
    /// which is then not computed.
    #[wasm_bindgen(constructor)]
    pub fn new(
        #[wasm_bindgen(js_name = sizeBytes)] size_bytes: f64,
        effort: &str,
        #[wasm_bindgen(js_name = allowTruncated)] allow_truncated: bool,
        statistics: bool,
        extended: bool,
        sha256: Option<String>,
    ) -> Result<Self, JsValue> {
        let new = || {
            let sha256 = sha256.as_deref().map(parse_sha256).transpose()?;
            let options = ContainerOptions::new(effort_named(effort)?);
            let options = options
                .original_sha256(sha256.map_or_else(Default::default, OriginalSha256::Claimed))
                .allow_truncated(allow_truncated)
                .statistics(statistics)
                .extended(extended);
            Ok(Self(Core::new(to_u64(size_bytes)?, options)))
        };
        new().map_err(|error| to_js_error(&error))
    }

    /// Returns the next range to read as `[offset, length]`, possibly empty; nothing when
    /// the container is complete.
    #[must_use]
    pub fn needs(&self) -> Option<Vec<f64>> {
        let range = self.0.needs()?;
        Some(vec![range.start as f64, (range.end - range.start) as f64])
    }

    /// Returns the name of the tensor that the range belongs to, if it belongs to one.
    #[must_use]
    pub fn tensor(&self) -> Option<String> {
        self.0.tensor().map(Into::into)
    }

    /// Continues with the bytes of that range. Returns the next bytes of the container,
    /// possibly none.
    pub fn supply(&mut self, bytes: &Uint8Array) -> Result<Uint8Array, JsValue> {
        let mut supply = || {
            let bytes = copied(bytes)?;
            check_room(bytes.len(), ROOM)?;
            self.0.supply(&Pure, &bytes)
        };
        answer(supply())
    }

    /// Returns the first bytes of the container. Returns none until it is complete, and
    /// none if `supply` has returned them.
    #[must_use]
    pub fn prefix(&self) -> Uint8Array {
        Uint8Array::from(self.0.prefix())
    }

    /// Returns whether single tensors can be read from the complete container.
    #[wasm_bindgen(js_name = isIndexed)]
    #[must_use]
    pub fn is_indexed(&self) -> bool {
        self.0.is_indexed()
    }

    /// Returns the result of packing each tensor, in data order, once the container is
    /// complete.
    pub fn packed(&self) -> Result<js_sys::Array, JsValue> {
        let rows = self.0.packed().into_iter().map(|tensor| {
            let row = Packed {
                name: tensor.name,
                byte_length: tensor.len_bytes,
                stored_length: tensor.stored_len_bytes,
                shared_with: tensor.alias_of,
            };
            serde_wasm_bindgen::to_value(&row).map_err(|_| {
                to_js_error(
                    &Error::limit("a size is too large for JavaScript numbers").tensor(row.name),
                )
            })
        });
        rows.collect()
    }
}
