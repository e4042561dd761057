//! Describes files of other formats than safetensors for packing
//! (docs/formats/zstn-virtual-header.md): the module for packing codes a file with the
//! virtual header that this module computes.

use js_sys::{Array, Float64Array, Uint8Array};
use wasm_bindgen::prelude::*;
use zstn_core::Error;
use zstn_core::catalog::{self, FileKind, recognise_named};
use zstn_core::container::safetensors::unreadable_header_len_bytes;
use zstn_core::container::zstn::virtual_header::VirtualHeader;

use crate::conversion::{to_js_error, to_u64};

/// Returns whether a file of `sizeBytes` bytes with this name, path or address and these
/// first bytes is packed with a virtual header. Fails for a file of another format whose
/// name states safetensors.
#[wasm_bindgen(js_name = isOtherFormat)]
pub fn is_other_format(
    name: &str,
    #[wasm_bindgen(js_name = sizeBytes)] size_bytes: f64,
    head: &[u8],
) -> Result<bool, JsValue> {
    let size = to_u64(size_bytes).map_err(|e| to_js_error(&e))?;
    if catalog::is_other_format(name, head, size) {
        return Ok(true);
    }
    if unreadable_header_len_bytes(head, size).is_some() {
        return Ok(false);
    }
    match recognise_named(name, head, size) {
        Err(_) | Ok(FileKind::Safetensors | FileKind::Zstn | FileKind::Delta) => Ok(false),
        Ok(kind) => {
            let detail = format!("the file {}", catalog::misnamed(name, kind));
            Err(to_js_error(&Error::invalid_input(detail)))
        }
    }
}

/// Returns the virtual header of a file of `sizeBytes` bytes whose tensors are not known,
/// in the encoding of [`parts`].
#[wasm_bindgen(js_name = virtualHeaderOfBytes)]
pub fn virtual_header_of_bytes(
    #[wasm_bindgen(js_name = sizeBytes)] size_bytes: f64,
) -> Result<Array, JsValue> {
    let header = to_u64(size_bytes).and_then(VirtualHeader::of_bytes);
    header
        .map(|header| parts(&header))
        .map_err(|e| to_js_error(&e))
}

/// Returns a virtual header as `[kind, header, codings]`: the format of the original, the
/// JSON, and for each entry that is no tensor of a plain dtype its offset and the bytes of
/// a block, or 0.
pub fn parts(header: &VirtualHeader) -> Array {
    let pairs = header.codings().pairs();
    let codings: Vec<f64> = pairs
        .flat_map(|(offset, block_bytes)| [offset as f64, block_bytes.into()])
        .collect();
    Array::of3(
        &header.kind().into(),
        &Uint8Array::from(header.json()).into(),
        &Float64Array::from(codings.as_slice()).into(),
    )
}
