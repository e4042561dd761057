//! Containers of other projects, read and written for those who have them.

#[cfg(feature = "compressed-tensors")]
pub mod compressed_tensors;
#[cfg(feature = "gauss")]
pub mod gauss;
#[cfg(feature = "ztensor")]
pub mod ztensor;

/// First bytes of a Gauss file, before the digit of its version.
pub(crate) const GAUSS_MAGIC: [u8; 7] = *b"GAUSS00";

/// First bytes of a zTensor file: versions 0 and 1, and version 2.
pub(crate) const ZTENSOR_MAGICS: &[&[u8]] = &[b"ZTEN", b"\x89ZT2\r\n\x1a\n"];
