//! Codes one plane into its payload and back. Nothing here knows the meaning of
//! the plane or chooses a method.

#[cfg(feature = "gauss")]
pub mod ans;
pub mod bits;
pub mod blocks;
pub mod brotli;
pub mod histogram;
pub mod interleaved;
pub mod rans;
pub mod zstd;
