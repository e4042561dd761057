//! zTensor (docs/formats/ztensor.md). Version 0.1 can be read and written;
//! versions 1.0, 1.1, 1.2 and 2 can be read.
//!
//! ```text
//! magic
//! blobs      each a part of a tensor: its elements, or indices of a sparse one
//! manifest   CBOR: name, shape and parts of every tensor
//! footer     location of the manifest
//! ```
//!
//! To read a file, pass both of its ends to [`ZTensorFooter::parse`], then the
//! manifest to [`Manifest::parse`], then the stored bytes of a tensor to
//! [`ManifestTensor::decode`] or [`Part::decode`]. Parts that are stored uncompressed
//! and little-endian are returned without a copy.

mod cbor;
mod checksum;
mod element;
mod footer;
mod manifest;
mod part;
mod sparse;
mod tensor;
mod v0;
mod v1;
mod v2;
mod writer;

pub use checksum::{Checksum, Covers, DigestKind, PartDigest};
pub use element::Element;
pub use footer::{FOOTER_BYTES, ZTensorFooter, ZTensorVersion};
pub use manifest::{Field, Manifest};
pub use part::{ByteOrder, Part, PartCoding};
pub use tensor::{ManifestTensor, TensorLayout};
pub use writer::{PartStorage, SourceTensor, ZTensorWriter, can_write, write};
