//! Packing a file against a base step by step; the reads and writes in between
//! are JavaScript's.

use js_sys::Uint8Array;
use serde::Serialize;
use wasm_bindgen::prelude::*;
use zstn_core::Error;
use zstn_core::container::model_delta::{DeltaOptions, IncrementalDeltaPacker as Core, Kind};
use zstn_core::pure::Pure;

use crate::error::to_js_error;
use crate::frames::{ROOM, ROOM_OF_DELTA, answer, check_room, copied, effort_named};
use crate::number::to_u64;

/// A file being packed against a base.
#[wasm_bindgen]
pub struct DeltaPacking(Core);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Packed<'a> {
    name: &'a str,
    byte_length: u64,
    stored_length: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<&'static str>,
}

#[wasm_bindgen]
impl DeltaPacking {
    /// Starts on a file of `sizeBytes` and a base of `baseBytes`; `effort` is
    /// `"fast"`, `"balanced"` or `"max"`. With `prefixLast` the first bytes of
    /// the delta are those of `prefix`, once it is complete; `extended`, which allows
    /// extension frames, implies it.
    #[wasm_bindgen(constructor)]
    pub fn new(
        #[wasm_bindgen(js_name = sizeBytes)] size_bytes: f64,
        #[wasm_bindgen(js_name = baseBytes)] base_bytes: f64,
        effort: &str,
        #[wasm_bindgen(js_name = prefixLast)] prefix_last: bool,
        extended: bool,
    ) -> Result<Self, JsValue> {
        let new = || {
            let options = DeltaOptions::new(effort_named(effort)?)
                .prefix_last(prefix_last)
                .extended(extended);
            let (size, base) = (to_u64(size_bytes)?, to_u64(base_bytes)?);
            Ok(Self(Core::new(size, base, options)))
        };
        new().map_err(|error| to_js_error(&error))
    }

    /// The ranges wanted next of the file and of its base as
    /// `[offset, length, offset, length]`, perhaps empty ones; nothing when the
    /// delta is complete.
    #[must_use]
    pub fn needs(&self) -> Option<Vec<f64>> {
        let needs = self.0.needs()?;
        let ranges = [needs.target, needs.base].into_iter();
        let pairs = ranges.map(|range| [range.start as f64, (range.end - range.start) as f64]);
        Some(pairs.flatten().collect())
    }

    /// Name of the tensor those ranges belong to, if they do.
    #[must_use]
    pub fn tensor(&self) -> Option<String> {
        self.0.tensor().map(Into::into)
    }

    /// Returns how many bytes of both files are read in all, once that is known.
    #[wasm_bindgen(js_name = readBytes)]
    #[must_use]
    pub fn read_bytes(&self) -> Option<f64> {
        self.0.read_len_bytes().map(|len| len as f64)
    }

    /// Goes on with the bytes of those ranges; returns the next bytes of the
    /// delta, perhaps none.
    pub fn supply(&mut self, bytes: &Uint8Array, base: &Uint8Array) -> Result<Uint8Array, JsValue> {
        let mut supply = || {
            let (bytes, base) = (copied(bytes)?, copied(base)?);
            let room = if bytes == base {
                // A tensor equal to that of the base is not coded, but its bytes may be
                // moved.
                1
            } else if base.is_empty() {
                ROOM
            } else {
                ROOM_OF_DELTA
            };
            check_room(bytes.len(), room)?;
            self.0.supply(&Pure, bytes.into(), base.into())
        };
        answer(supply())
    }

    /// Returns the first bytes of the delta. Known at the end.
    #[must_use]
    pub fn prefix(&self) -> Uint8Array {
        Uint8Array::from(self.0.prefix())
    }

    /// Returns how each tensor was packed, in data order. Known at the end.
    pub fn packed(&self) -> Result<js_sys::Array, JsValue> {
        let rows = self.0.packed().into_iter().map(|tensor| {
            let row = Packed {
                name: tensor.name,
                byte_length: tensor.len_bytes,
                stored_length: tensor.stored_len_bytes,
                base: match tensor.kind {
                    Kind::Full => None,
                    Kind::Delta | Kind::Difference => Some("difference"),
                    Kind::Copy => Some("copy"),
                },
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
