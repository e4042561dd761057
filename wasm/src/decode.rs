//! Decodes tensors, for a model of this instance or of another one, with the
//! engine of this build, which determines how zstd is decoded and how jobs run.

#[cfg(any(feature = "formats", feature = "threads"))]
use std::borrow::Cow;

use js_sys::Uint8Array;
use wasm_bindgen::prelude::*;
#[cfg(any(feature = "reader", feature = "threads"))]
use zstn_core::catalog::FrameTask;
#[cfg(any(feature = "formats", feature = "threads"))]
use zstn_core::model::DecodeTask;
use zstn_core::{Error, Result};

use crate::conversion::to_js_error;

#[cfg(not(feature = "threads"))]
pub const ENGINE: zstn_core::pure::Pure = zstn_core::pure::Pure;

#[cfg(feature = "threads")]
pub const ENGINE: Threads = Threads;

/// An engine that decodes zstd in Rust and runs jobs on the page's thread pool.
#[cfg(feature = "threads")]
pub struct Threads;

#[cfg(feature = "threads")]
impl zstn_core::engine::Engine for Threads {
    fn zstd_decode(&self, frame: &[u8], out: &mut [u8]) -> Result<(), String> {
        zstn_core::pure::Pure.zstd_decode(frame, out)
    }

    fn map<T, R, F>(&self, items: Vec<T>, job: F) -> Vec<R>
    where
        T: Send,
        R: Send,
        F: Fn(T) -> R + Sync + Send,
    {
        use rayon::prelude::*;
        items.into_par_iter().map(job).collect()
    }
}

/// Decodes the tensor that `task` describes from the `stored` bytes of its frame. The raw
/// bytes are written to `into` if it is given, which must have exactly their length.
#[cfg(any(feature = "reader", feature = "threads"))]
#[wasm_bindgen(js_name = decodeFrame)]
pub fn decode_frame(
    task: &[u8],
    stored: &[u8],
    into: Option<Uint8Array>,
) -> Result<Uint8Array, JsValue> {
    let task = FrameTask::from_bytes(task).map_err(|e| to_js_error(&e))?;
    let bytes = task.decode(&ENGINE, stored).map_err(|e| to_js_error(&e))?;
    copied(&bytes, into)
}

/// Decodes the tensor that `task` describes from the stored bytes of its `parts`, in
/// order. `base` is the base's tensor that the task needs, if it needs one. The raw
/// bytes are written to `into` if it is given, which must have exactly their length.
#[cfg(any(feature = "formats", feature = "threads"))]
#[wasm_bindgen]
pub fn decode(
    task: &[u8],
    parts: Vec<Uint8Array>,
    base: Option<Vec<u8>>,
    into: Option<Uint8Array>,
) -> Result<Uint8Array, JsValue> {
    let task = DecodeTask::from_bytes(task).map_err(|e| to_js_error(&e))?;
    decoded(&parts, base.as_deref(), into, |parts, base| {
        task.decode(&ENGINE, parts, base)
    })
}

/// Runs `decode` on copies of `parts` in this module's memory, and copies its result to
/// `into` or to a new array.
#[cfg(any(feature = "formats", feature = "threads"))]
pub fn decoded(
    parts: &[Uint8Array],
    base: Option<&[u8]>,
    into: Option<Uint8Array>,
    decode: impl for<'a> FnOnce(&[&'a [u8]], Option<&'a [u8]>) -> Result<Cow<'a, [u8]>>,
) -> Result<Uint8Array, JsValue> {
    let parts: Vec<Vec<u8>> = parts.iter().map(Uint8Array::to_vec).collect();
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    let bytes = decode(&parts, base).map_err(|e| to_js_error(&e))?;
    copied(&bytes, into)
}

/// Copies decoded bytes to `into`, or to a new array.
fn copied(bytes: &[u8], into: Option<Uint8Array>) -> Result<Uint8Array, JsValue> {
    let Some(into) = into else {
        return Ok(Uint8Array::from(bytes));
    };
    if into.length() as usize != bytes.len() {
        return Err(to_js_error(&Error::invalid_input(format!(
            "a tensor of {} bytes does not fit into {} exactly",
            bytes.len(),
            into.length()
        ))));
    }
    into.copy_from(bytes);
    Ok(into)
}
