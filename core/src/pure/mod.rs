//! An engine without C code and without threads.

#[cfg(feature = "pure-encoder")]
mod search;

use alloc::string::String;
use alloc::vec::Vec;

use crate::engine::Engine;
use crate::entropy::zstd;

/// An engine that decodes zstd in pure Rust and runs jobs sequentially. With
/// the feature `pure-encoder`, it also encodes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pure;

impl Engine for Pure {
    fn zstd_decode(&self, frame: &[u8], out: &mut [u8]) -> Result<(), String> {
        zstd::decode_frame(frame, out)
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
