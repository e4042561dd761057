//! Containers of other projects, read and written for those who have them.

#[cfg(feature = "compressed-tensors")]
pub mod compressed_tensors;
#[cfg(feature = "gauss")]
pub mod gauss;
#[cfg(feature = "ztensor")]
pub mod ztensor;
