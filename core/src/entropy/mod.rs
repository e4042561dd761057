//! One plane to its coded payload and back. Nothing here knows what the plane
//! means; nothing here chooses a method.

#[cfg(feature = "gauss")]
pub mod ans;
pub mod blocks;
pub mod brotli;
pub mod histogram;
pub mod rans;
pub mod zstd;
