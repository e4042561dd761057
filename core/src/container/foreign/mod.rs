//! File formats of other projects: reading, and writing where their users need
//! it.

#[cfg(feature = "compressed-tensors")]
pub mod compressed_tensors;
#[cfg(feature = "gauss")]
pub mod gauss;
#[cfg(feature = "ztensor")]
pub mod ztensor;

/// The first bytes of a Gauss file, before the digit of its version.
pub(crate) const GAUSS_MAGIC: [u8; 7] = *b"GAUSS00";

/// The first bytes of a zTensor file: of versions 0 and 1, and of version 2.
pub(crate) const ZTENSOR_MAGICS: &[&[u8]] = &[b"ZTEN", b"\x89ZT2\r\n\x1a\n"];
