//! File formats of other projects: reading, and writing where their users need
//! it.

#[cfg(any(feature = "element-codings", feature = "ztensor"))]
mod byte_order;
#[cfg(feature = "compressed-tensors")]
pub mod compressed_tensors;
#[cfg(feature = "element-codings")]
mod element_coding;
#[cfg(feature = "gauss")]
pub mod gauss;
#[cfg(feature = "gguf")]
pub mod gguf;
#[cfg(feature = "hdf5")]
pub mod hdf5;
#[cfg(feature = "msgpack")]
pub mod msgpack;
#[cfg(any(feature = "msgpack", feature = "onnx"))]
mod names;
#[cfg(any(feature = "onnx", feature = "tflite"))]
mod narrow;
#[cfg(feature = "npy")]
pub mod npy;
#[cfg(feature = "onnx")]
pub mod onnx;
#[cfg(feature = "zip")]
pub(crate) mod pytorch;
#[cfg(any(feature = "hdf5", feature = "tflite"))]
mod random_access;
#[cfg(any(
    feature = "gguf",
    feature = "hdf5",
    feature = "msgpack",
    feature = "onnx",
    feature = "tflite"
))]
mod shape;
#[cfg(any(feature = "npy", feature = "virtual-headers"))]
pub(crate) mod strided;
#[cfg(feature = "tar")]
pub(crate) mod tar;
#[cfg(feature = "tflite")]
pub mod tflite;
#[cfg(any(feature = "msgpack", feature = "onnx", feature = "tar"))]
mod window;
#[cfg(feature = "zip")]
pub(crate) mod zip;
#[cfg(feature = "ztensor")]
pub mod ztensor;

#[cfg(feature = "element-codings")]
pub(crate) use element_coding::{ElementCoding, Units};
#[cfg(any(feature = "msgpack", feature = "onnx", feature = "tar"))]
pub(crate) use window::{Walk, Window};

/// The first bytes of a Gauss file, before the digit of its version.
pub(crate) const GAUSS_MAGIC: [u8; 7] = *b"GAUSS00";

/// The first bytes of a GGUF file.
pub(crate) const GGUF_MAGIC: [u8; 4] = *b"GGUF";

/// The first bytes of a NumPy array.
pub(crate) const NPY_MAGIC: [u8; 6] = *b"\x93NUMPY";

/// The first bytes of zip archives: of a member, and of the end if there are no members.
/// NumPy and PyTorch write archives of the same structure.
pub(crate) const ZIP_MAGICS: &[&[u8]] = &[b"PK\x03\x04", b"PK\x05\x06"];

/// The first bytes of a PyTorch file from before version 1.6: a pickle of a number.
pub(crate) const PYTORCH_MAGIC: [u8; 15] = *b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.";

/// The first bytes of zTensor files. The first entry belongs to versions 0 and
/// 1, the second to version 2.
pub(crate) const ZTENSOR_MAGICS: &[&[u8]] = &[b"ZTEN", b"\x89ZT2\r\n\x1a\n"];

/// Suffixes of tensor names that mark the parts of a quantised
/// compressed-tensors weight.
pub(crate) const QUANTISED: [&str; 3] = [".weight_packed", ".weight_scale", ".scale_packed"];

/// Suffixes of tensor names that mark the parts of a sparse compressed-tensors
/// weight.
pub(crate) const SPARSE: [&str; 2] = [".bitmask", ".compressed"];

/// Returns whether a tensor of this name may be a part of a compressed-tensors
/// weight. If so, `config.json` decides whether it is.
pub(crate) fn may_be_part(name: &str) -> bool {
    let mut marks = QUANTISED.iter().chain(&SPARSE);
    marks.any(|mark| name.ends_with(mark))
}
