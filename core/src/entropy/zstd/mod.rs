//! zstd payloads: the rules that apply regardless of the engine that decodes
//! them (docs/formats/z4ai-frames.md 1 and 4.2), and zstd codecs in pure Rust.
//!
//! [`check()`] must precede any decoding. [`encode_literals`] writes the frames
//! that every engine writes identically, and [`decode_flat`] reads the variant
//! of them that decodes fastest; [`decode_frame`] reads any frame.

#[cfg(target_arch = "x86_64")]
mod avx2;
pub mod cost;
mod decode;
mod encode;
mod frame;
mod fse;

use alloc::format;

pub use decode::{decode_flat, decode_frame};
pub(crate) use encode::MIN_GAIN_DIVISOR;
pub use encode::encode_literals;
#[cfg(feature = "pure-encoder")]
pub(crate) use encode::{write_blocks, write_header};
pub use frame::{check, check_sized};
pub(crate) use frame::{content_bytes, sized_prefix};

use crate::engine::Engine;
use crate::{Error, Result, Rule};

/// Decodes a payload that [`check()`] has accepted for `out.len()` bytes.
pub fn decode<E: Engine>(engine: &E, payload: &[u8], out: &mut [u8]) -> Result<()> {
    engine.zstd_decode(payload, out).map_err(|why| {
        Error::malformed(
            Rule::ZstdData,
            format!("zstd data do not decode ({why}): the file is damaged"),
        )
    })
}
