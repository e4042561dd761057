//! Engine without C and without threads. Its frames of literals are written
//! by every engine.

use alloc::string::String;
use alloc::vec::Vec;

use super::Engine;

#[cfg(feature = "pure-encoder")]
mod bits;
#[cfg(feature = "pure-encoder")]
mod cut;
mod decoder;
#[cfg(feature = "pure-encoder")]
mod encoder;
#[cfg(feature = "pure-encoder")]
mod flat;
mod fse;
#[cfg(feature = "pure-encoder")]
mod huffman;
#[cfg(feature = "pure-encoder")]
mod search;
#[cfg(feature = "pure-encoder")]
mod streams;
#[cfg(feature = "pure-encoder")]
mod weights;

#[cfg(feature = "pure-encoder")]
pub use encoder::encode_literals;

/// Decodes a frame of literals that begins with a flat code into the whole of
/// `out`, if `frame` is one: by shifts, several times as fast as C zstd does
/// by its tables.
pub fn decode_flat(frame: &[u8], out: &mut [u8]) -> Option<Result<(), String>> {
    let is_ours = decoder::is_flat(frame) && decoder::has_sequences(frame) == Ok(false);
    is_ours.then(|| Ok(decoder::decode(frame, out)?))
}

/// zstd by a decoder of our own; jobs one after the other. With the feature
/// `pure-encoder` it packs as well.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pure;

impl Engine for Pure {
    fn zstd_decode(&self, frame: &[u8], out: &mut [u8]) -> Result<(), String> {
        Ok(decoder::decode(frame, out)?)
    }

    fn map<T, R, F>(&self, items: Vec<T>, job: F) -> Vec<R>
    where
        T: Send,
        R: Send,
        F: Fn(T) -> R + Sync + Send,
    {
        items.into_iter().map(job).collect()
    }
}
