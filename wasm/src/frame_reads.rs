//! Reads parts of files whose heads TypeScript has parsed: rows of a tensor, the sizes of
//! its planes, and the copy of a long header. JavaScript does the reads.

use js_sys::Uint8Array;
use wasm_bindgen::prelude::*;
use zstn_core::catalog::FrameTask;
use zstn_core::container::zstn::integrity;
use zstn_core::pure::Pure;
use zstn_core::{Error, Result};

use crate::conversion::{plane_lines, to_js_error, to_u64};

/// Returns the compiled module, from which other instances can be created.
#[wasm_bindgen(js_name = compiledModule)]
#[must_use]
pub fn compiled_module() -> JsValue {
    wasm_bindgen::module()
}

/// Returns the plan for reading the bytes `start` to `end` (exclusive) of the tensor that
/// `task` describes, as `[band, offset, length, …]`: the number of bytes of the tensor that
/// are decoded together, and the ranges to fetch. `table` is its block table.
#[wasm_bindgen(js_name = partRanges)]
pub fn part_ranges(task: &[u8], table: &[u8], start: f64, end: f64) -> Result<Vec<f64>, JsValue> {
    let plan = || {
        let span = to_u64(start)?..to_u64(end)?;
        FrameTask::from_bytes(task)?.plan(table, span)
    };
    let plan = plan().map_err(|e: Error| to_js_error(&e))?;
    let ranges = plan.ranges().iter();
    let pairs = ranges.map(|range| [range.start as f64, (range.end - range.start) as f64]);
    let band = plan.band_bytes().unwrap_or(0) as f64;
    Ok([band].into_iter().chain(pairs.flatten()).collect())
}

/// Decodes the bytes `start` to `end` (exclusive) of the tensor that `task` describes from
/// the bytes of the ranges that `partRanges` has returned.
#[wasm_bindgen(js_name = decodePart)]
pub fn decode_part(
    task: &[u8],
    table: &[u8],
    start: f64,
    end: f64,
    fetched: Vec<Uint8Array>,
) -> Result<Vec<u8>, JsValue> {
    let fetched: Vec<Vec<u8>> = fetched.iter().map(Uint8Array::to_vec).collect();
    let fetched: Vec<&[u8]> = fetched.iter().map(Vec::as_slice).collect();
    let decode = || {
        let span = to_u64(start)?..to_u64(end)?;
        FrameTask::from_bytes(task)?.decode_part(&Pure, table, span, &fetched)
    };
    decode().map_err(|e: Error| to_js_error(&e))
}

/// Returns the stored size of each plane of the tensor that `task` describes, from its
/// block table: one line for each plane, with tabs between its name, its method and its
/// decoded and stored lengths.
#[wasm_bindgen(js_name = planeSizes)]
pub fn plane_sizes(task: &[u8], table: &[u8]) -> Result<String, JsValue> {
    let planes = FrameTask::from_bytes(task).and_then(|task| task.plane_sizes(table));
    let planes = planes.map_err(|e| to_js_error(&e))?;
    Ok(plane_lines(&planes))
}

/// Decodes the copy of a header of `lenBytes` bytes.
#[wasm_bindgen(js_name = decodeHeader)]
pub fn decode_header(
    copy: &[u8],
    #[wasm_bindgen(js_name = lenBytes)] len_bytes: f64,
) -> Result<Vec<u8>, JsValue> {
    let header = to_u64(len_bytes)
        .and_then(|len_bytes| integrity::decode_header_copy(&Pure, copy, len_bytes));
    header.map_err(|e| to_js_error(&e))
}
