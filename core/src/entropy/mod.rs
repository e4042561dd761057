//! Entropy codecs, which encode a plane as a payload and decode it. This module
//! neither knows the meaning of a plane nor chooses a method.

#[cfg(feature = "gauss")]
pub mod ans;
pub mod bits;
pub mod blocks;
pub mod brotli;
pub mod histogram;
pub mod interleaved;
pub mod rans;
pub mod zstd;
