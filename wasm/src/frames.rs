//! Compression and decompression of single frames.

use std::hint::black_box;

use js_sys::Uint8Array;
use wasm_bindgen::prelude::*;
use zstn_core::bytes::index;
use zstn_core::container::{model_delta, zstn};
use zstn_core::dtype::Dtype;
use zstn_core::frame::delta::{self, Delta};
use zstn_core::frame::select::{self, Effort};
use zstn_core::limits::HEAD_LEN_BYTES;
use zstn_core::pure::Pure;
use zstn_core::{Error, Result, TensorRef, bytes, frame};

use crate::conversion::{to_js_error, to_u64};

/// Decompresses a frame of any family except deltas. The decoded length may be at most
/// `limitBytes` bytes.
#[wasm_bindgen]
pub fn decompress(
    frame: &Uint8Array,
    #[wasm_bindgen(js_name = limitBytes)] limit_bytes: f64,
) -> Result<Uint8Array, JsValue> {
    let decoded = || {
        let frame = copied(frame)?;
        refuse_container(&frame)?;
        if frame.starts_with(&delta::MAGIC) {
            return Err(Error::unsupported(
                "this is the difference from other bytes; use decompressDelta() with those",
            ));
        }
        frame::decompress(&Pure, &frame, to_u64(limit_bytes)?)
    };
    answer(decoded())
}

/// Compresses `bytes`, which are elements of `dtype`, to the smallest frame found.
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
        check_room(bytes.len(), ROOM)?;
        Ok(select::encode(
            &Pure,
            TensorRef::flat(&bytes, dtype),
            effort,
        ))
    };
    answer(coded())
}

/// Compresses the delta of `bytes`, which are elements of `dtype`, from a `base` of the
/// same length.
#[wasm_bindgen(js_name = compressDelta)]
pub fn compress_delta(
    bytes: &Uint8Array,
    base: &Uint8Array,
    dtype: Option<String>,
    effort: &str,
) -> Result<Uint8Array, JsValue> {
    let coded = || {
        let dtype = dtype.as_deref().map(dtype_named).transpose()?;
        let effort = effort_named(effort)?;
        if bytes.length() != base.length() {
            return Err(Error::invalid_input(format!(
                "the input has {} bytes, the base has {}: a delta needs a base of the same \
                 length; compress the input without a base",
                bytes.length(),
                base.length()
            )));
        }
        let (bytes, base) = (copied(bytes)?, copied(base)?);
        check_room(bytes.len(), ROOM_OF_DELTA)?;
        let current = TensorRef::flat(&bytes, dtype);
        delta::encode(&Pure, current, &base, effort.into())
    };
    answer(coded())
}

/// Restores bytes from their delta and its `base`. The decoded length may be at most
/// `limitBytes` bytes.
#[wasm_bindgen(js_name = decompressDelta)]
pub fn decompress_delta(
    frame: &Uint8Array,
    base: &Uint8Array,
    #[wasm_bindgen(js_name = limitBytes)] limit_bytes: f64,
) -> Result<Uint8Array, JsValue> {
    let decoded = || {
        let frame = copied(frame)?;
        refuse_container(&frame)?;
        let delta = Delta::parse(&frame)?;
        let (len, limit) = (delta.len_bytes(), to_u64(limit_bytes)?);
        if len > limit {
            return Err(Error::limit(format!(
                "the frame decodes to {len} bytes, over the limit of {limit}"
            )));
        }
        delta.decode(&Pure, &copied(base)?)
    };
    answer(decoded())
}

fn refuse_container(frame: &[u8]) -> Result<()> {
    if frame.starts_with(&zstn::MAGIC) || frame.starts_with(&model_delta::MAGIC) {
        return Err(Error::unsupported(
            "this is a whole container, not a single frame; use open()",
        ));
    }
    Ok(())
}

fn dtype_named(name: &str) -> Result<Dtype> {
    Dtype::from_name(name).ok_or_else(|| {
        Error::invalid_input(format!(
            "there is no dtype `{name}`; examples are BF16, F16, F32, F64, I8 … U64"
        ))
    })
}

pub fn effort_named(name: &str) -> Result<Effort> {
    match name {
        "fast" => Ok(Effort::Fast),
        "balanced" => Ok(Effort::Balanced),
        "max" => Ok(Effort::Max),
        _ => Err(Error::invalid_input(format!(
            "there is no effort `{name}`; use fast, balanced or max"
        ))),
    }
}

/// Copies the bytes of `array` to this module's memory, or returns an error if they do
/// not fit.
pub fn copied(array: &Uint8Array) -> Result<Vec<u8>> {
    let mut copy = bytes::buffer(array.length().into())?;
    array.copy_to(&mut copy);
    Ok(copy)
}

/// The maximum memory for coding in addition to its input, as a multiple of the input's
/// length: the coded planes, and the frame that is built from them.
pub const ROOM: usize = 2;

/// Like [`ROOM`], for coding a delta, which also needs memory for the delta and for a
/// frame without the base.
pub const ROOM_OF_DELTA: usize = 4;

/// Returns an error if there is not enough memory to code `len` bytes, which takes `room`
/// times their length. Running out of memory while coding would stop the whole module.
/// The check allows for bytes of the tensor that arrived with the file's header and are
/// not part of `len`.
pub fn check_room(len: usize, room: usize) -> Result<()> {
    let mut parts = [const { Vec::<u8>::new() }; ROOM_OF_DELTA];
    let mut needed = parts.iter_mut().take(room);
    let most = len.saturating_add(index(HEAD_LEN_BYTES));
    let reserved = needed.try_for_each(|part| part.try_reserve_exact(most));
    // The compiler would remove allocations that nothing observes.
    black_box(&parts);
    reserved.map_err(|_| {
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
