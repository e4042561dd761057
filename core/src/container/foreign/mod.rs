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

/// The suffixes in the names of quantised weights' parts.
pub(crate) const QUANTISED: [&str; 3] = [".weight_packed", ".weight_scale", ".scale_packed"];

/// The suffixes in the names of sparse weights' parts.
pub(crate) const SPARSE: [&str; 2] = [".bitmask", ".compressed"];

/// Returns whether a tensor of this name may be a part of a weight. If it may,
/// `config.json` decides.
pub(crate) fn may_be_part(name: &str) -> bool {
    let mut marks = QUANTISED.iter().chain(&SPARSE);
    marks.any(|mark| name.ends_with(mark))
}
