//! zTensor (docs/formats/ztensor.md): version 0.1 read and written, versions
//! 1.0, 1.1, 1.2 and 2 read.
//!
//! ```text
//! magic
//! blobs      each a part of a tensor: its elements, or indices of a sparse one
//! manifest   CBOR: name, shape and parts of every tensor
//! footer     where the manifest is
//! ```
//!
//! Reading goes [`Footer::parse`] from both ends of the file, then
//! [`Manifest::parse`], then [`Tensor::decode`] or [`Part::decode`] from the
//! stored bytes of one tensor. Parts that are stored plainly and in this
//! machine's order are handed out without a copy.

mod cbor;
mod checksum;
mod element;
mod field;
mod footer;
mod manifest;
mod part;
mod seekable;
mod sparse;
mod tensor;
mod v0;
mod v1;
mod v2;
mod writer;

pub use checksum::{Checksum, Covers, Digest, DigestKind};
pub use element::Element;
pub use field::Field;
pub use footer::{FOOTER_BYTES, Footer, Version};
pub use manifest::Manifest;
pub use part::{ByteOrder, Coding, Part};
pub use tensor::{Layout, Tensor};
pub use writer::{Entry, Storage, Writer, can_write, write};
