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

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use minicbor::{Decoder, Encoder};
use serde::{Deserialize, Serialize};

use crate::{Error, Result, Rule};
use cbor::{Item, Style};

mod cbor;
mod checksum;
mod footer;
mod part;
mod shard;
mod sparse;
mod tensor;
mod v0;
mod v1;
mod v2;
mod writer;

pub use super::byte_order::ByteOrder;
pub use checksum::{Checksum, Covers, DigestKind, PartDigest};
pub use footer::{FOOTER_BYTES, ZTensorFooter, ZTensorVersion};
pub use part::{Part, PartCoding};
pub use shard::Shard;
pub use tensor::{ElementType, ManifestTensor, TensorLayout};
pub use writer::{PartStorage, SourceTensor, ZTensorWriter, can_write, write};

/// The metadata of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The version of the format.
    pub version: ZTensorVersion,
    /// The tensors, in the order of the file.
    pub tensors: Vec<ManifestTensor>,
    /// The attributes of the whole file; version 0.1 has none.
    pub attributes: Vec<Field>,
    /// The other files that contain parts, in the order of their names; only
    /// version 2 has any.
    pub shards: Vec<Shard>,
}

impl Manifest {
    /// Parses the manifest from `bytes`, which are the range `footer.manifest`
    /// of the file. Offsets in errors are relative to the start of the file.
    pub fn parse(bytes: &[u8], footer: &ZTensorFooter) -> Result<Self> {
        footer.check_hash(bytes)?;
        let manifest = Self {
            version: footer.version,
            tensors: Vec::new(),
            attributes: Vec::new(),
            shards: Vec::new(),
        };
        if bytes.is_empty() && footer.version == ZTensorVersion::V0_1 {
            // The released readers of 0.1 take this for a file without tensors.
            return Ok(manifest);
        }
        let is_v2 = footer.version == ZTensorVersion::V2;
        let style = Style {
            depth: if is_v2 { 32 } else { 100 },
            is_deterministic: is_v2,
        };
        let root = Item::check(bytes, footer.manifest.start, style)?;
        let manifest = match footer.version {
            ZTensorVersion::V0_1 => v0::parse(root, footer, manifest),
            ZTensorVersion::V1_0 => v1::parse_1_0(root, footer, manifest),
            ZTensorVersion::V1_1 => v1::parse_1_1(root, footer, manifest),
            ZTensorVersion::V2 => v2::parse(root, footer, manifest),
        }?;
        check_names(&manifest.tensors)?;
        Ok(manifest)
    }
}

/// Fails if two tensors have the same name, because released readers disagree
/// about which one is meant.
fn check_names(tensors: &[ManifestTensor]) -> Result<()> {
    let mut names = BTreeSet::new();
    match tensors.iter().find(|tensor| !names.insert(&tensor.name)) {
        None => Ok(()),
        Some(tensor) => Err(Error::malformed(
            Rule::ZTensorName,
            "the file has two tensors of this name",
        )
        .tensor(&tensor.name)),
    }
}

/// Returns the value of a key that must be present.
fn required<T>(value: Option<T>, key: &str, map: Item) -> Result<T> {
    value.ok_or_else(|| {
        Error::malformed(Rule::ZTensorField, format!("`{key}` is missing")).at(map.offset())
    })
}

/// Returns the entries of a map of attributes.
fn attributes(item: Item) -> Result<Vec<Field>> {
    item.map("attributes")?
        .map(|entry| entry.map(|(name, value)| Field::checked(name, value)))
        .collect()
}

/// Parses one tensor from each entry of a map.
fn named<'a>(
    map: Item<'a>,
    what: &'a str,
    mut parse: impl FnMut(&'a str, Item<'a>) -> Result<ManifestTensor>,
) -> Result<Vec<ManifestTensor>> {
    map.map(what)?
        .map(|entry| {
            let (name, item) = entry?;
            let refuse = |error: Error| error.at(item.offset()).tensor(name);
            let tensor = parse(name, item).map_err(refuse)?;
            tensor.check_size().map_err(refuse)?;
            Ok(tensor)
        })
        .collect()
}

/// The largest nesting depth of a custom value.
const DEPTH: u32 = 90;

/// A key with a value of any type, stored in its original encoding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    name: String,
    value: Vec<u8>,
}

impl Field {
    /// Creates a field whose value is one CBOR item.
    pub fn new(name: impl Into<String>, value: Vec<u8>) -> Result<Self> {
        let style = Style {
            depth: DEPTH,
            is_deterministic: false,
        };
        Item::check(&value, 0, style)
            .map_err(|_| Error::invalid_input("the value of a field is not one CBOR item"))?;
        Ok(Self {
            name: name.into(),
            value,
        })
    }

    /// Creates a field whose value is a text string.
    #[must_use]
    pub fn from_text(name: impl Into<String>, text: &str) -> Self {
        let mut encoder = Encoder::new(Vec::new());
        // Encoding into memory cannot fail.
        let _ = encoder.str(text);
        Self {
            name: name.into(),
            value: encoder.into_writer(),
        }
    }

    /// Creates a field from an item of a manifest that has been checked as a
    /// whole.
    fn checked(name: &str, value: Item) -> Self {
        Self {
            name: name.into(),
            value: value.bytes().into(),
        }
    }

    /// Returns the key.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the value, which is one CBOR item.
    #[must_use]
    pub fn cbor(&self) -> &[u8] {
        &self.value
    }

    /// Returns the value if it is a text string.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        Decoder::new(&self.value).str().ok()
    }
}
