//! Packs a file step by step, alone or against a base. JavaScript does the
//! reads and writes in between.

use js_sys::Uint8Array;
use serde::Serialize;
use wasm_bindgen::prelude::*;
use zstn_core::Error;
use zstn_core::catalog::BaseUse;
use zstn_core::container::model_delta::{DeltaOptions, IncrementalDeltaPacker};
use zstn_core::container::zstn::{
    ContainerOptions, EntryCodings, IncrementalPacker, OriginalSha256, parse_sha256,
};
use zstn_core::pure::Pure;

use crate::conversion::{to_js_error, to_u64};
use crate::frames::{ROOM, ROOM_OF_DELTA, answer, check_room, copied, effort_named};

/// A file that is being packed.
#[wasm_bindgen]
pub struct Packing(IncrementalPacker);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PackedTensor<'a> {
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
            Ok(Self(IncrementalPacker::new(to_u64(size_bytes)?, options)))
        };
        new().map_err(|error| to_js_error(&error))
    }

    /// Packs the file with this virtual header, because it is not a safetensors file.
    /// `head` contains its first bytes, which are not requested again. `codings` are pairs
    /// of numbers: the offset of an entry, and the bytes of a block or 0.
    pub fn describe(
        &mut self,
        head: &Uint8Array,
        header: &Uint8Array,
        codings: &[f64],
    ) -> Result<(), JsValue> {
        let mut describe = || {
            let pairs = codings.chunks_exact(2).map(|pair| {
                let [offset, block_bytes] = [to_u64(pair[0])?, to_u64(pair[1])?];
                let block_bytes = u8::try_from(block_bytes);
                let block_bytes = block_bytes.map_err(|_| Error::limit("a block is too long"))?;
                Ok::<_, Error>((offset, block_bytes))
            });
            let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
            let (head, header) = (copied(head)?, copied(header)?);
            self.0.describe(&head, header, EntryCodings::new(pairs))
        };
        describe().map_err(|error| to_js_error(&error))
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
            let row = PackedTensor {
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

/// A file that is being packed against a base.
#[wasm_bindgen]
pub struct DeltaPacking(IncrementalDeltaPacker);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PackedRecord<'a> {
    name: &'a str,
    byte_length: u64,
    stored_length: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<&'static str>,
}

#[wasm_bindgen]
impl DeltaPacking {
    /// Starts packing a file of `sizeBytes` bytes against a base of `baseBytes` bytes;
    /// `effort` is `"fast"`, `"balanced"` or `"max"`. With `prefixLast`, `prefix` returns
    /// the first bytes of the complete delta, and `supply` does not. `extended` allows
    /// extension frames and implies `prefixLast`.
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
            Ok(Self(IncrementalDeltaPacker::new(size, base, options)))
        };
        new().map_err(|error| to_js_error(&error))
    }

    /// Returns the next ranges to read from the file and from its base as `[offset,
    /// length, offset, length]`, each possibly empty; nothing when the delta is complete.
    #[must_use]
    pub fn needs(&self) -> Option<Vec<f64>> {
        let needs = self.0.needs()?;
        let ranges = [needs.target, needs.base].into_iter();
        let pairs = ranges.map(|range| [range.start as f64, (range.end - range.start) as f64]);
        Some(pairs.flatten().collect())
    }

    /// Returns the name of the tensor that those ranges belong to, if they belong to one.
    #[must_use]
    pub fn tensor(&self) -> Option<String> {
        self.0.tensor().map(Into::into)
    }

    /// Returns the total number of bytes to read from both files, once the headers have
    /// been parsed.
    #[wasm_bindgen(js_name = readBytes)]
    #[must_use]
    pub fn read_bytes(&self) -> Option<f64> {
        self.0.read_len_bytes().map(|len| len as f64)
    }

    /// Continues with the bytes of those ranges. Returns the next bytes of the delta,
    /// possibly none.
    pub fn supply(&mut self, bytes: &Uint8Array, base: &Uint8Array) -> Result<Uint8Array, JsValue> {
        let mut supply = || {
            let (bytes, base) = (copied(bytes)?, copied(base)?);
            let room = if bytes == base {
                // A tensor that equals the base's tensor is not coded, but its bytes may
                // be copied.
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

    /// Returns the first bytes of the delta, once it is complete.
    #[must_use]
    pub fn prefix(&self) -> Uint8Array {
        Uint8Array::from(self.0.prefix())
    }

    /// Returns the result of packing each tensor, in data order, once the delta is
    /// complete.
    pub fn packed(&self) -> Result<js_sys::Array, JsValue> {
        let rows = self.0.packed().into_iter().map(|tensor| {
            let row = PackedRecord {
                name: tensor.name,
                byte_length: tensor.len_bytes,
                stored_length: tensor.stored_len_bytes,
                base: BaseUse::of(tensor.kind).map(BaseUse::name),
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
