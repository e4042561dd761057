//! Engine without C and without threads. Its frames of literals are written
//! by every engine.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use ruzstd::decoding::FrameDecoder;
use twox_hash::XxHash64;

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

/// zstd frames of literals alone by a decoder of our own, others by `ruzstd`;
/// jobs one after the other. With the feature `pure-encoder` it packs as well.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pure;

impl Engine for Pure {
    fn zstd_decode(&self, frame: &[u8], out: &mut [u8]) -> Result<(), String> {
        if decoder::has_sequences(frame)? {
            return general(frame, out);
        }
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

/// Decodes a frame that may have sequences.
fn general(frame: &[u8], out: &mut [u8]) -> Result<(), String> {
    // A fresh decoder: one that is used again reserves the whole window a
    // frame declares, up to 128 MiB for a plane of a few bytes.
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(u64::MAX);
    // What ruzstd says about damage is of use to nobody, and would be a part
    // of what every page loads.
    let len = decoder
        .decode_all(frame, out)
        .map_err(|_| "its sequences are damaged")?;
    if len != out.len() {
        return Err(format!("{len} bytes instead of {}", out.len()));
    }
    // ruzstd reads the checksum but does not compare it.
    if let Some(stored) = decoder.get_checksum_from_data() {
        let actual = XxHash64::oneshot(0, out) & u64::from(u32::MAX);
        if actual != u64::from(stored) {
            return Err("the checksum differs".into());
        }
    }
    Ok(())
}
