//! GGUF, the format of llama.cpp (docs/formats/gguf.md). Versions 2 and 3 can
//! be read, in both byte orders.
//!
//! ```text
//! magic, version, number of tensors, number of metadata entries
//! metadata   keys with values: architecture, tokenizer, …
//! tensors    name, sizes, element type and offset of each
//! padding    up to a multiple of the alignment
//! data       the tensors' elements, or blocks of quantised elements
//! ```
//!
//! The length of everything before the data is not stored, so
//! [`GgufHeader::parse`] either returns the header or the number of bytes that
//! may contain it. [`ElementCoding::decode`] converts the stored bytes of a
//! tensor to its values.

mod blocks;
mod element_type;
mod field_reader;
mod header;
mod tensor_list;
mod value;

pub use super::byte_order::ByteOrder;
pub use super::element_coding::ElementCoding;
pub(super) use blocks::decode as decode_blocks;
pub use element_type::ElementType;
pub use header::{GgufHeader, MetadataEntry, ParsedHeader};
pub use tensor_list::GgufTensor;
pub use value::MetadataValue;
