//! Single frames.

use js_sys::Uint8Array;
use wasm_bindgen::prelude::*;
use zstn_core::TensorRef;
use zstn_core::container::{model_delta, zstn};
use zstn_core::dtype::Dtype;
use zstn_core::frame::select::{self, Effort};
use zstn_core::pure::Pure;
use zstn_core::{Error, Result, bytes, frame};

use crate::error::to_js_error;
use crate::number::to_u64;

/// The bytes a frame of any kind holds, at most `limitBytes` of them.
#[wasm_bindgen]
pub fn decompress(
    frame: &Uint8Array,
    #[wasm_bindgen(js_name = limitBytes)] limit_bytes: f64,
) -> Result<Uint8Array, JsValue> {
    let decoded = || {
        let frame = copied(frame)?;
        if frame.starts_with(&zstn::MAGIC) || frame.starts_with(&model_delta::MAGIC) {
            return Err(Error::unsupported(
                "this is a whole container, not a single frame; use open()",
            ));
        }
        frame::decompress(&Pure, &frame, to_u64(limit_bytes)?)
    };
    answer(decoded())
}

/// The smallest frame found for `bytes`, which are elements of `dtype`.
#[wasm_bindgen]
pub fn compress(
    bytes: &Uint8Array,
    dtype: Option<String>,
    effort: &str,
) -> Result<Uint8Array, JsValue> {
    let coded = || {
        let dtype = dtype.as_deref().map(dtype_named).transpose()?;
        let effort = effort_named(effort)?;
        let bytes = copied(bytes)?;
        check_room(bytes.len())?;
        Ok(select::encode(
            &Pure,
            TensorRef::flat(&bytes, dtype),
            effort,
        ))
    };
    answer(coded())
}

fn dtype_named(name: &str) -> Result<Dtype> {
    Dtype::from_name(name).ok_or_else(|| {
        Error::invalid_input(format!(
            "there is no dtype `{name}`; BF16, F16, F32, F64, I8 … U64 are some"
        ))
    })
}

pub fn effort_named(name: &str) -> Result<Effort> {
    match name {
        "fast" => Ok(Effort::Fast),
        "balanced" => Ok(Effort::Balanced),
        "max" => Ok(Effort::Max),
        _ => Err(Error::invalid_input(format!(
            "there is no effort `{name}`; fast, balanced and max are"
        ))),
    }
}

/// The bytes in this module's memory, or an error where they do not fit.
pub fn copied(array: &Uint8Array) -> Result<Vec<u8>> {
    let mut copy = bytes::buffer(array.length().into())?;
    array.copy_to(&mut copy);
    Ok(copy)
}

/// Coding takes up to this many times the memory of what is coded, besides
/// it: coded planes, and the frame made of them.
const ROOM: usize = 2;

/// Returns whether `len` bytes can be coded: running out in the middle would stop the
/// whole module.
pub fn check_room(len: usize) -> Result<()> {
    let room = len.saturating_mul(ROOM);
    Vec::<u8>::new().try_reserve_exact(room).map_err(|_| {
        Error::limit(format!(
            "{len} bytes are more than WebAssembly has memory to pack"
        ))
    })
}

pub fn answer(result: Result<Vec<u8>>) -> Result<Uint8Array, JsValue> {
    result
        .map(|bytes| Uint8Array::from(&*bytes))
        .map_err(|e| to_js_error(&e))
}
